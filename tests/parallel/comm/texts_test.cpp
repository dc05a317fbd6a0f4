#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/texts.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/stream.hpp>

namespace texts_test {

/// Of any length, also none.
std::string text_of(int rank) {
  return std::string(static_cast<std::size_t>(rank * rank % 7), static_cast<char>('a' + rank));
}

TEST_CASE("texts of ranks go to all, from one or from each, and to rank 0") {
  for (int const ranks : {1, 2, 5, 8})
    parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
      parallel::host::stream exchanges;
      auto const mine = text_of(comm.rank());
      for (int root = 0; root < ranks; ++root)
        CHECK(parallel::broadcast_text(comm, exchanges, mine, root) == text_of(root));
      CHECK(parallel::broadcast_text(comm, exchanges, mine) == text_of(0));
      std::vector<std::string> all;
      for (int rank = 0; rank < ranks; ++rank) all.push_back(text_of(rank));
      CHECK(parallel::gather_texts(comm, exchanges, mine) == all);
      auto const got = parallel::gather_texts_to_root(comm, exchanges, mine);
      CHECK(got == (comm.rank() == 0 ? all : std::vector<std::string>()));
    });
}

}  // namespace texts_test
