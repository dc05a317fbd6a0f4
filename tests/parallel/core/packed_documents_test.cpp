#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/core/packed_documents.hpp>

namespace packed_documents_test {

using parallel::packed_documents;

TEST_CASE("packed_documents: a span of beginnings with an optional count, which subspans lack") {
  std::vector<std::int32_t> const begins = {0, 0, 2, 0, 0};
  CHECK(packed_documents().empty());
  packed_documents const uncounted = begins;
  CHECK(uncounted.size() == 5);
  CHECK(uncounted.data() == begins.data());
  CHECK(uncounted.count() == 0);
  packed_documents const counted = {begins, 3};
  CHECK(counted.count() == 3);
  packed_documents const part = counted.subspan(3);
  CHECK(part.size() == 2);
  CHECK(part.count() == 0);
}

}  // namespace packed_documents_test
