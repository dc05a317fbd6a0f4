#include <mpt/hf/pickle_names.hpp>

#include <algorithm>

namespace mpt::hf::pickle_names {

bool is_storage(std::string_view name) {
  return std::ranges::find(storages, name) != storages.end();
}

bool allowed(std::string_view name) {
  return name == mapping || name == tensor || name == parameter || is_storage(name) ||
         std::ranges::find(others, name) != others.end();
}

}  // namespace mpt::hf::pickle_names
