// A Hugging Face config.json to a model, and back.
#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::hf_config(std::string_view input) {
  static scratch const folder;
  auto const path = folder.file("config.json", input);
  refused([&] {
    auto const read = mpt::read_hf_config(path);
    auto const printed = mpt::to_hf_json(read.model, read.dtype);
    ensure(mpt::from_hf_json(printed, "printed").model == read.model,
           "a model survives being written and read");
    if (auto const* const family = mpt::find_family(read.model.family)) {
      auto const written = mpt::to_family_json(*family, read.model, read.dtype);
      ensure(mpt::from_hf_json(written, "written").model == read.model,
             "a model of a family survives being written and read in its form");
    }
  });
}
