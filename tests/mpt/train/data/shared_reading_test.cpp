// One rank reads batches and all ranks of its group have them.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <mpt/train/data/shared_reading.hpp>
#include <parallel/comm/threads/run.hpp>

#include "parallel/support/files.hpp"

namespace shared_reading_test {

using ids = std::vector<std::int32_t>;

template <class T>
ids list(T const& values) {
  return {values.begin(), values.end()};
}

/// Whether both are the same rows.
bool same_rows(mpt::sequences const& a, mpt::sequences const& b) {
  auto const x = a.rows(), y = b.rows();
  return x.count == y.count && x.length == y.length && x.ids == y.ids && x.labels == y.labels &&
         x.document_begins == y.document_begins;
}

/// Checks that three ranks have what read() returns, and that only the first of them reads.
template <class Read>
void check(Read const& read) {
  std::atomic<int> reads = 0;
  parallel::threads::run(3, [&](parallel::threads::communicator& world) {
    parallel::any_communicator comm(std::move(world));
    parallel::host::stream s;
    auto const got = mpt::read_on_first(comm, s, [&] {
      ++reads;
      return read();
    });
    auto const expected = read();
    REQUIRE(got.has_value() == expected.has_value());
    if (got) CHECK(same_rows(*got, *expected));
  });
  CHECK(reads == 1);
}

TEST_CASE("shared reading: all ranks have the first rank's text, examples, empty batches and end") {
  using mpt::sequences;
  using side = mpt::document_separator::side;
  check([] { return std::optional(sequences(ids{5, 1, 2, 9, 3, 9, 9, 4}, 4)); });
  check([] {
    return std::optional(sequences(ids{5, 1, 2, 9, 3, 9, 9, 4}, 4, {side::ends_document, 9}));
  });
  check([] {
    return std::optional(sequences(ids{5, 1, 2, 9, 3, 9}, 3, {side::begins_document, 9}));
  });
  check([] {
    mpt::finetune::rows rows{.count = 2, .length = 2};
    rows.ids = {1, 2, 3, 4};
    rows.labels = {2, -100, -100, 7};
    rows.document_begins = {0, 0, 0, 1};
    return std::optional(sequences(std::move(rows)));
  });
  check([] { return std::optional(sequences(ids{}, 4)); });
  check([]() -> std::optional<sequences> { return std::nullopt; });
}

TEST_CASE("shared reading: an error of the reading rank ends the others with its message") {
  auto const message = test::message_of([] {
    parallel::threads::run(2, [&](parallel::threads::communicator& world) {
      parallel::any_communicator comm(std::move(world));
      parallel::host::stream s;
      static_cast<void>(mpt::read_on_first(comm, s, []() -> std::optional<mpt::sequences> {
        throw parallel::error("the shard is damaged");
      }));
    });
  });
  CHECK(message == "the shard is damaged");
}

}  // namespace shared_reading_test
