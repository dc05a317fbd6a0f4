// Tests of sizes by name.
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/model/sizes.hpp>
#include <parallel/core/error.hpp>

namespace sizes_test {

TEST_CASE("named_size: both names of a size give the model of the YAMLs") {
  for (auto const& size : mpt::model_sizes) {
    auto const model = mpt::named_size(size.name);
    CHECK(model == mpt::named_size("mpt-" + std::string(size.name)));
    CHECK(model.learned_pos_emb);
    CHECK(!model.no_bias);
    CHECK(model.vocab_size == 50368);
    CHECK(model.max_seq_len == 2048);
    auto const dim = mpt::head_dim(model);
    CHECK((dim == 64 || dim == 128));
    mpt::check_model(model, "");
  }
}

TEST_CASE("hub_form: has ALiBi and no bias") {
  auto const model = mpt::hub_form(mpt::named_size("7b"));
  CHECK(model.attn.alibi);
  CHECK(!model.learned_pos_emb);
  CHECK(model.no_bias);
  CHECK(!mpt::has_attention_bias(model));
  CHECK(model.vocab_size == 50432);
}

TEST_CASE("named_size: an unknown size is an error that lists the known ones") {
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::named_size("2b")),
                       "'2b' is not the name of a model size; there are 125m, 350m, 760m, 1b, 3b, "
                       "7b, 13b, 30b, 70b",
                       parallel::error);
}

}  // namespace sizes_test
