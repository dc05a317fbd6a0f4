#include <mpt/tokenizer/byte_level.hpp>

namespace mpt::byte_level {

std::string spell(std::string_view bytes) {
  std::string out;
  for (char const byte : bytes) utf8::append(out, spelling[static_cast<unsigned char>(byte)]);
  return out;
}

std::string spell(unsigned char byte) {
  std::string out;
  utf8::append(out, spelling[byte]);
  return out;
}

std::string read(std::string_view token) {
  std::string out;
  for (std::size_t position = 0; position < token.size();) {
    auto const next = utf8::read(token, position);
    if (next.state != utf8::status::valid || next.code_point >= reading.size() ||
        reading[next.code_point] < 0)
      return std::string(token);
    out.push_back(static_cast<char>(reading[next.code_point]));
    position += next.bytes;
  }
  return out;
}

}  // namespace mpt::byte_level
