// A run whose configuration needs parts that were not read is refused before it begins.
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/run_parts.hpp>
#include <parallel/support/files.hpp>

namespace run_parts_test {

struct no_data final : mpt::run_data {
  [[nodiscard]] std::unique_ptr<mpt::run_batches> batches(mpt::model_config const&,
                                                          mpt::data_config const&,
                                                          mpt::execution_config const&, int,
                                                          int) const override {
    return nullptr;
  }
  [[nodiscard]] std::vector<std::unique_ptr<mpt::evaluation_set>> evaluation_sets(
      mpt::model_config const&, mpt::data_config const&, mpt::evaluation_config const&,
      mpt::execution_config const&, int) const override {
    return {};
  }
};

TEST_CASE("run parts: a part that the configuration needs and that is missing is refused") {
  mpt::train_config config;
  mpt::run_parts parts;
  auto const refusal = [&] {
    return test::message_of([&] {
      static_cast<void>(
          checked_parts(config.evaluation.icl, config.callbacks, config.output.loggers, parts));
    });
  };
  CHECK(refusal() ==
        "a run with a train_loader needs it read before; give the parts that read_run_parts makes");
  parts.data = std::make_shared<no_data>();
  CHECK(&checked_parts(config.evaluation.icl, config.callbacks, config.output.loggers, parts) ==
        &parts);
  config.evaluation.icl.tasks.emplace_back();
  CHECK(test::contains(refusal(), "a run with icl_tasks needs it read"));
  config.evaluation.icl.tasks.clear();
  config.callbacks.generate.emplace();
  CHECK(test::contains(refusal(), "a run with a generate_callback needs it read"));
  parts.prompts = std::make_shared<mpt::sample_prompts const>();
  config.callbacks.hf_checkpointer.emplace();
  CHECK(test::contains(refusal(), "a run with an hf_checkpointer needs it read"));
  parts.exports = std::make_shared<mpt::hf_exports const>();
  CHECK(&checked_parts(config.evaluation.icl, config.callbacks, config.output.loggers, parts) ==
        &parts);
}

}  // namespace run_parts_test
