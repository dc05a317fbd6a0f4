#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace hash_test {
namespace pc = parallel::checkpoint;

TEST_CASE("checksum: is XXH3 with 64 bits, and does not depend on how the bytes are divided") {
  CHECK(parallel::hexadecimal(pc::checksum(std::string_view())) ==
        "2d06800538d394c2");  // the published value
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  auto const bytes = std::as_bytes(std::span(text));
  for (std::size_t const cut : {1U, 13U, 240U, 256U, 1024U, 4999U}) {
    pc::running_checksum sum;
    for (std::size_t i = 0; i < bytes.size(); i += cut)
      sum.add(bytes.subspan(i, std::min(cut, bytes.size() - i)));
    CHECK(sum.value() == pc::checksum(bytes));
  }
  auto changed = text;
  changed[2500] ^= 1;
  CHECK(pc::checksum(std::string_view(changed)) != pc::checksum(std::string_view(text)));
}

}  // namespace hash_test
