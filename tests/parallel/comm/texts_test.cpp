#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/texts.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/stream.hpp>

namespace texts_test {

/// A text of the rank; its length depends on the rank and may be 0.
std::string to_string(int rank) {
  return std::string(static_cast<std::size_t>(rank * rank % 7), static_cast<char>('a' + rank));
}

TEST_CASE("texts: broadcast from one rank, gathered on all ranks and gathered on rank 0") {
  for (int const ranks : {1, 2, 5, 8})
    parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
      parallel::host::stream exchanges;
      auto const own_text = to_string(comm.rank());
      for (int root = 0; root < ranks; ++root)
        CHECK(parallel::broadcast_text(comm, exchanges, own_text, root) == to_string(root));
      CHECK(parallel::broadcast_text(comm, exchanges, own_text) == to_string(0));
      std::vector<std::string> texts;
      for (int rank = 0; rank < ranks; ++rank) texts.push_back(to_string(rank));
      CHECK(parallel::gather_texts(comm, exchanges, own_text) == texts);
      auto const gathered = parallel::gather_texts_to_root(comm, exchanges, own_text);
      CHECK(gathered == (comm.rank() == 0 ? texts : std::vector<std::string>()));
    });
}

}  // namespace texts_test
