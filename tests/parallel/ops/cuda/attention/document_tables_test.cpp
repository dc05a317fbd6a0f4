#include <doctest/doctest.h>

#include <parallel/ops/cuda/attention/document_tables.hpp>

namespace document_tables_test {

using namespace parallel::cuda;

TEST_CASE(
    "document tables: their number is a power of two, for documents of at least 8 tokens on "
    "average") {
  CHECK(max_documents(1) == 1);
  CHECK(max_documents(33) == 4);
  CHECK(max_documents(32768) == 4096);
  CHECK(document_bound(0, 64) == 0);
  CHECK(document_bound(1, 64) == 1);
  CHECK(document_bound(5, 64) == 8);
  CHECK(document_bound(8, 64) == 8);
  CHECK(document_bound(9, 64) == 0);
  CHECK(document_bound(4, 33) == 4);
}

TEST_CASE("document tables: every table begins at a multiple of 16 bytes") {
  CHECK(lengths_bytes(1) == 16);
  CHECK(lengths_bytes(8) == 32);
  CHECK(offsets_bytes(1) == 32);
  CHECK(offsets_bytes(8) == 80);
  CHECK(document_tables_bytes(8, 5) == 32 + 5 * 80);
}

}  // namespace document_tables_test
