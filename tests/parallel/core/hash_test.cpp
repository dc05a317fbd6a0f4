#include <doctest/doctest.h>

#include <parallel/core/hash.hpp>

namespace hash_test {

using parallel::fnv1a;

TEST_CASE("fnv1a: hashes equal FNV's published test vectors") {
  CHECK(fnv1a("") == 0xcbf29ce484222325ULL);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8ULL);
}

}  // namespace hash_test
