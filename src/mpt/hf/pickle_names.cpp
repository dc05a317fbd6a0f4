#include <mpt/hf/pickle_names.hpp>

#include <algorithm>

namespace mpt::hf::pickle_names {

bool is_storage(std::string_view name) {
  return std::ranges::find(storages, name) != storages.end();
}

bool is_allowed(std::string_view name) {
  return name == mapping || name == tensor || name == parameter || is_storage(name) ||
         std::ranges::find(irrelevant, name) != irrelevant.end();
}

}  // namespace mpt::hf::pickle_names
