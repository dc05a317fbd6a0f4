#include <cstdint>

#include <doctest/doctest.h>

#include <mpt/config/model/sizes.hpp>
#include <mpt/hf/names.hpp>

namespace hf_shapes_test {

TEST_CASE("shapes: the tensors of a configuration are all parameters of its model") {
  for (auto const& size : mpt::model_sizes) {
    auto config = mpt::named_size(size.name);
    for (auto const& form : {config, mpt::hub_form(config)}) {
      std::int64_t elements = 0;
      for (auto const& [name, extents] : mpt::hf::shapes_of(form)) {
        std::int64_t volume = 1;
        for (auto const extent : extents) volume *= extent;
        elements += volume;
      }
      CHECK(elements == mpt::parameter_count(form));
    }
  }
  auto const first = mpt::hf::shapes_of(mpt::named_size("125m")).front();
  CHECK(first.name == "transformer.wte.weight");
  CHECK(first.extents == std::vector<parallel::index>{50368, 768});
}

}  // namespace hf_shapes_test
