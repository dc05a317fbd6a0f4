// The body of the kernel of document tables on the host, against a loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <parallel/core/philox.hpp>
#include <parallel/ops/cuda/kernels/attention/document_tables.hpp>

#include "support/devices/guarded.hpp"
#include "support/devices/host_block.hpp"

namespace cuda_document_tables_test {

using namespace parallel;
using cuda::kernels::document_tables;
using parallel::index;

struct expected_tables {
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> starts[2];  // for tables with these strides
};

struct problem {
  index sequences, length, greatest, max_documents;
};
constexpr std::array<std::array<std::int64_t, 2>, 2> strides = {{{1000, 3}, {64, 1}}};

TEST_CASE("document_tables kernel: writes every document, then the end at least twice") {
  for (problem const& shape : {problem{1, 1, 1, 1},
                               {3, 1, 1, 4},
                               {2, 9, 4, 32},
                               {3, 64, 1, 192},
                               {1, 700, 90, 700},
                               {4, 300, 300, 2048},
                               {2, 50, 1000, 2}}) {
    index const sequences = shape.sequences, length = shape.length,
                max_documents = shape.max_documents;
    philox const source(6, 1);
    std::uint64_t drawn = 0;
    std::vector<std::int32_t> begins;
    expected_tables expected;
    for (index b = 0; b < sequences; ++b)
      for (index position = 0; position < length;) {
        index const wanted = 1 + static_cast<index>(source.bits(drawn++)) % shape.greatest;
        index const tokens = std::min(wanted, length - position);
        begins.insert(begins.end(), static_cast<std::size_t>(tokens),
                      static_cast<std::int32_t>(position));
        expected.lengths.push_back(static_cast<std::int32_t>(tokens));
        for (std::size_t t = 0; t < 2; ++t)
          expected.starts[t].push_back(b * strides[t][0] + position * strides[t][1]);
        position += tokens;
      }
    REQUIRE(std::ssize(expected.lengths) <= max_documents);
    expected.lengths.resize(static_cast<std::size_t>(max_documents), 0);
    for (std::size_t t = 0; t < 2; ++t)
      expected.starts[t].resize(static_cast<std::size_t>(max_documents) + 2,
                                (sequences - 1) * strides[t][0] + length * strides[t][1]);
    CAPTURE(sequences);
    CAPTURE(length);
    using enum testing::thread_order;
    for (auto const order : {ascending, descending, shuffled}) {
      auto const count = static_cast<std::size_t>(max_documents);
      testing::guarded<std::int32_t> lengths(count, 0);
      testing::guarded<std::int64_t> starts[2] = {{count + 2, 0}, {count + 2, 0}};
      document_tables body{.begins = begins.data(),
                           .sequences = sequences,
                           .length = length,
                           .max_documents = max_documents,
                           .lengths = lengths.data(),
                           .count = 2,
                           .tables = {}};
      for (int t = 0; t < 2; ++t) body.tables[t] = {starts[t].data(), strides[t][0], strides[t][1]};
      testing::host_block::run_grid(1, document_tables::threads, document_tables::shared_bytes,
                                    order, body);
      CHECK(lengths.intact());
      CHECK(lengths.values() == expected.lengths);
      for (std::size_t t = 0; t < 2; ++t) {
        CHECK(starts[t].intact());
        CHECK(starts[t].values() == expected.starts[t]);
      }
    }
  }
}

}  // namespace cuda_document_tables_test
