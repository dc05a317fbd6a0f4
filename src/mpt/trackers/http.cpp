#include <mpt/trackers/http.hpp>

#include <string_view>

namespace mpt::trackers {

std::string shown_text(std::string_view text) {
  constexpr std::size_t longest = 600;
  std::string shown;
  for (char const character : text.substr(0, longest)) {
    auto const byte = static_cast<unsigned char>(character);
    shown += byte < 0x20 || byte == 0x7f ? '?' : character;
  }
  if (text.size() > longest) shown += "...";
  return shown;
}

}  // namespace mpt::trackers
