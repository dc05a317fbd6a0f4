#include <doctest/doctest.h>

#include <parallel/ops/cuda/document_tables.hpp>

namespace document_tables_test {

using namespace parallel::cuda;

TEST_CASE("tables are for a power of two of documents, of 8 tokens or more in the mean") {
  CHECK(most_documents(1) == 1);
  CHECK(most_documents(33) == 4);
  CHECK(most_documents(32768) == 4096);
  CHECK(document_bound(0, 64) == 0);
  CHECK(document_bound(1, 64) == 1);
  CHECK(document_bound(5, 64) == 8);
  CHECK(document_bound(8, 64) == 8);
  CHECK(document_bound(9, 64) == 0);
  CHECK(document_bound(4, 33) == 4);
}

TEST_CASE("every table begins at a multiple of 16 bytes") {
  CHECK(lengths_bytes(1) == 16);
  CHECK(lengths_bytes(8) == 32);
  CHECK(offsets_bytes(1) == 32);
  CHECK(offsets_bytes(8) == 80);
  CHECK(document_tables_bytes(8, 5) == 32 + 5 * 80);
}

}  // namespace document_tables_test
