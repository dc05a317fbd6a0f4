#include <mpt/config/model/token_ids.hpp>

#include <cstddef>
#include <limits>

#include <mpt/yaml/node.hpp>

namespace mpt {

std::vector<std::int64_t> read_token_ids(nlohmann::json const& json, std::string const& key,
                                         std::string const& source) {
  std::vector<std::int64_t> out;
  auto const found = json.find(key);
  if (found == json.end() || found->is_null()) return out;
  auto const add = [&](nlohmann::json const& id) {
    constexpr auto largest = std::numeric_limits<std::int32_t>::max();
    bool const whole = id.is_number_integer() &&
                       (!id.is_number_unsigned() || id.get<std::uint64_t>() <= largest) &&
                       id.get<std::int64_t>() <= largest;
    parallel::require(whole, source, ": ", key, " is ", printable(found->dump()),
                      "; expected a token's number, or a list of them");
    out.push_back(id.get<std::int64_t>());
  };
  if (!found->is_array()) {
    add(*found);
    return out;
  }
  constexpr std::size_t most = 1024;
  parallel::require(found->size() <= most, source, ": ", key, " names ", found->size(),
                    " tokens; expected a token's number, or a list of ", most, " at most");
  for (auto const& id : *found) add(id);
  return out;
}

}  // namespace mpt
