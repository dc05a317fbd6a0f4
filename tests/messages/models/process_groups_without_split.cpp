// the communicator lacks what has_split (parallel/comm/concepts.hpp) asks for
#include <parallel/comm/single.hpp>
#include <parallel/train/process_groups.hpp>

struct whole : parallel::single {
  void split() = delete;
};

void run(whole comm) {
  parallel::train::process_groups<whole> const groups(std::move(comm), {},
                                                      parallel::zero::level::none);
}
