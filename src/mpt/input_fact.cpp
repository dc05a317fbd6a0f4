#include <mpt/input_fact.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt {

std::vector<std::uint64_t> sampled_places(std::uint64_t size, std::string_view name) {
  constexpr std::size_t count = 16;
  std::set<std::uint64_t> places;
  if (size <= count)
    for (std::uint64_t place = 0; place < size; ++place) places.insert(place);
  else
    places = {0, size - 1};
  for (std::size_t draw = 0; size > count && places.size() < count; ++draw)
    places.insert(parallel::checkpoint::checksum(parallel::concat(name, " ", draw)) % size);
  return {places.begin(), places.end()};
}

std::string file_checksum(std::filesystem::path const& file) {
  parallel::input_file const in(file);
  parallel::checkpoint::running_checksum sum;
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::uint64_t begin = 0; begin < in.size(); begin += block.size()) {
    auto const piece = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), in.size() - begin)));
    in.read(begin, piece, "its content");
    sum.add(piece);
  }
  return "xxh3 " + parallel::hexadecimal(sum.value());
}

std::string to_text(input_facts const& facts) {
  auto out = nlohmann::json::array();
  for (auto const& fact : facts)
    out.push_back({fact.input, fact.path, fact.property, fact.value, fact.is_optional});
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

input_facts parse_input_facts(std::string_view text) {
  input_facts out;
  for (auto const& fact : nlohmann::json::parse(text))
    out.push_back({fact.at(0), fact.at(1), fact.at(2), fact.at(3), fact.at(4)});
  return out;
}

std::optional<std::string> input_difference(input_facts const& expected, input_facts const& found,
                                            int rank) {
  std::map<std::pair<std::string, std::string>, std::deque<input_fact const*>> unmatched;
  for (auto const& fact : expected) unmatched[{fact.input, fact.property}].push_back(&fact);
  auto const clause = [&](input_fact const& fact, std::string const& value,
                          std::string const& value_of_first) {
    return parallel::concat(fact.input, fact.path.empty() ? "" : " " + fact.path,
                            fact.property.empty() ? "" : ", " + fact.property, ": ", value,
                            " on rank ", rank, ", ", value_of_first, " on rank 0");
  };
  for (auto const& fact : found) {
    auto& matches = unmatched[{fact.input, fact.property}];
    if (matches.empty() && fact.is_optional) continue;
    if (matches.empty()) return clause(fact, fact.value, "nothing");
    auto const& value_of_first = matches.front()->value;
    if (value_of_first != fact.value) return clause(fact, fact.value, value_of_first);
    matches.pop_front();
  }
  for (auto const& fact : expected) {
    auto const& rest = unmatched[{fact.input, fact.property}];
    if (!fact.is_optional && !rest.empty() && rest.front() == &fact)
      return clause(fact, "nothing", fact.value);
  }
  return std::nullopt;
}

}  // namespace mpt
