#include <doctest/doctest.h>

#include <mpt/data/named_split.hpp>
#include <mpt/data/scratch.hpp>
#include <string>
#include <vector>

namespace named_split_test {

using names = std::vector<std::string>;

/// "SPLIT", or "SPLIT N" where the split ends after N samples.
std::string found(std::string const& name, names const& available) {
  auto const split = mpt::data::find_named_split(name, available, "org/set");
  return split.split + (split.max_samples ? " " + std::to_string(*split.max_samples) : "");
}

}  // namespace named_split_test

TEST_CASE("named split: LLM Foundry's names of C4's splits") {
  using namespace named_split_test;
  names const c4{"train", "validation"};
  CHECK(found("train", c4) == "train");
  CHECK(found("train_small", c4) == "train 100000");
  CHECK(found("val", c4) == "validation");
  CHECK(found("val_small", c4) == "validation 10000");
  CHECK(found("val_xsmall", c4) == "validation 3000");
  CHECK(found("val_xxsmall", c4) == "validation 100");
}

TEST_CASE("named split: a data set's own name goes before LLM Foundry's") {
  using namespace named_split_test;
  CHECK(found("validation", {"train", "validation"}) == "validation");
  CHECK(found("val", {"train", "val"}) == "val");
  CHECK(found("train_small", {"train", "train_small"}) == "train_small");
}

TEST_CASE("named split: an unknown name is an error that lists the known ones") {
  using namespace named_split_test;
  auto const error = [](std::string const& name, names const& available) {
    return data_test::message_of([&] { (void)found(name, available); });
  };
  CHECK(error("dev", {"train", "validation"}) ==
        "org/set: has no split \"dev\"; expected one of train, validation, train_small, val, "
        "val_small, val_xsmall, val_xxsmall");
  CHECK(error("val_small", {"test", "train"}) ==
        "org/set: has no split \"val_small\"; expected one of test, train, train_small");
}
