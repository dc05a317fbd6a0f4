#include <doctest/doctest.h>

#include <mpt/train/fitting_settings.hpp>

namespace fitting_settings_test {

TEST_CASE("what is tried grows dearer, and each try is what a command line takes") {
  mpt::train_config config;
  config.device_train_microbatch_size = 4;
  config.zero_stage = 1;
  using all = std::vector<mpt::settings>;
  std::string const micro = "device_train_microbatch_size=auto";
  std::string const again = "fsdp_config.activation_checkpointing=true";
  CHECK(mpt::memory_saving_settings(config, 8, 16) ==
        all{{micro},
            {micro, "zero_stage=2"},
            {micro, "zero_stage=3"},
            {micro, "zero_stage=1", again},
            {micro, "zero_stage=3", again},
            {micro, "ranks=16", "zero_stage=3"},
            {micro, "ranks=16", "zero_stage=3", again}});
}

TEST_CASE("what a run has is not tried again") {
  mpt::train_config config;  // the microbatch is automatic
  config.zero_stage = 3;
  config.recompute = mpt::block_recomputation(2);
  CHECK(mpt::memory_saving_settings(config, 8, 8).empty());
  CHECK(mpt::memory_saving_settings(config, 8, 32) ==
        std::vector<mpt::settings>{{"ranks=16"}, {"ranks=32"}});
  config.recompute.reset();
  config.zero_stage = 0;  // one rank shards nothing
  CHECK(mpt::memory_saving_settings(config, 1, 1) ==
        std::vector<mpt::settings>{{"zero_stage=0", "fsdp_config.activation_checkpointing=true"}});
}

TEST_CASE("the first that fits is told") {
  std::vector<mpt::settings> const all{{"a=1"}, {"a=1", "b=2"}, {"c=3"}};
  CHECK(mpt::settings_that_fit(all, [](auto const& some) { return some.size() == 2; }) ==
        "a=1 b=2");
  CHECK(mpt::settings_that_fit(all, [](auto const&) { return false; }).empty());
}

}  // namespace fitting_settings_test
