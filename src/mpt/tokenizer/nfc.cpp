#include <mpt/tokenizer/nfc.hpp>

#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

void append_nfc(std::string& out, std::string_view stretch) {
  if (stretch.empty()) return;
  utf8proc_uint8_t* result = nullptr;
  auto const length =
      utf8proc_map(reinterpret_cast<utf8proc_uint8_t const*>(stretch.data()),
                   static_cast<utf8proc_ssize_t>(stretch.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> const owner(result, &std::free);
  parallel::require(length >= 0,
                    "normalising text to NFC failed: ", length < 0 ? utf8proc_errmsg(length) : "");
  out.append(reinterpret_cast<char const*>(result), static_cast<std::size_t>(length));
}

}  // namespace

std::size_t first_unstable(std::string_view text) {
  for (auto position = utf8::skip_ascii(text, 0); position < text.size();) {
    auto const next = utf8::read(text, position);
    if (!detail::contains(detail::stable_characters, next.code_point)) return position;
    position += next.bytes;
    if (position < text.size() && static_cast<unsigned char>(text[position]) < 0x80)
      position = utf8::skip_ascii(text, position);
  }
  return text.size();
}

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  std::size_t begin = 0;    // everything before it is in `out`
  std::size_t stretch = 0;  // start of the stretch to normalise: the last stable character
  bool unstable = false;    // whether the stretch holds anything to normalise
  auto const flush = [&](std::size_t end) {
    if (unstable) {
      out += text.substr(begin, stretch - begin);
      append_nfc(out, text.substr(stretch, end - stretch));
      begin = end;
    }
    unstable = false;
  };
  for (std::size_t position = 0; position < text.size();) {
    auto const next = utf8::read(text, position);
    if (detail::contains(detail::stable_characters, next.code_point)) {
      flush(position);
      stretch = position;
    } else if (detail::contains(detail::inert_characters, next.code_point)) {
      flush(position);
      stretch = position + next.bytes;  // nothing composes with it
    } else {
      unstable = true;
    }
    position += next.bytes;
  }
  flush(text.size());
  out += text.substr(begin);
  return out;
}

}  // namespace mpt
