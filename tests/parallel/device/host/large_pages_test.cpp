// The advice to use large pages affects only whole pages of allocated memory.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include <parallel/device/host/large_pages.hpp>

namespace large_pages_test {

using parallel::host::large_page;
using parallel::host::prefer_large_pages;

TEST_CASE("prefer_large_pages: memory keeps its contents for any begin and end") {
  std::vector<unsigned char> memory(5 * large_page, 7);
  for (std::size_t const begin : {std::size_t{0}, std::size_t{64}, large_page - 1, large_page})
    for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, large_page - 1, large_page,
                                    2 * large_page + 4097, 4 * large_page - 1}) {
      prefer_large_pages(memory.data() + begin, bytes);
    }
  bool is_unchanged = true;
  for (unsigned char const byte : memory) is_unchanged = is_unchanged && byte == 7;
  CHECK(is_unchanged);
}

TEST_CASE("prefer_large_pages: memory without a whole large page is no error") {
  errno = 0;
  std::vector<unsigned char> small(large_page / 2);
  prefer_large_pages(small.data(), small.size());
  prefer_large_pages(small.data(), 0);
  prefer_large_pages(nullptr, 0);
  CHECK(errno == 0);
}

}  // namespace large_pages_test
