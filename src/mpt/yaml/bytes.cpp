#include <mpt/yaml/bytes.hpp>

#include <array>
#include <string>
#include <utility>

#include <mpt/ascii.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> units{{{"kib", 0x1p10},
                                                                      {"mib", 0x1p20},
                                                                      {"gib", 0x1p30},
                                                                      {"tib", 0x1p40},
                                                                      {"kb", 1e3},
                                                                      {"mb", 1e6},
                                                                      {"gb", 1e9},
                                                                      {"tb", 1e12},
                                                                      {"b", 1}}};
  auto lower = lower_case(text);
  double unit = 1;
  for (auto const& [name, bytes] : units)
    if (lower.ends_with(name)) {
      unit = bytes;
      lower.resize(lower.size() - name.size());
      break;
    }
  while (lower.ends_with(' ')) lower.pop_back();
  auto const number = parse_decimal(lower);
  if (!number || !(*number > 0) || *number * unit > 0x1p60) return std::nullopt;
  return static_cast<std::uint64_t>(*number * unit);
}

}  // namespace mpt
