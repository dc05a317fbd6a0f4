// Ranks as processes: the launchers whose ranks find each other. Each has a file that is compiled
// where its library is found, and a twin that knows nothing of it; CMake chooses.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <parallel/comm/any_communicator.hpp>

#include <launch/launch.hpp>

namespace apps {

/// This process as its launcher describes it.
struct process {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;         // among those of this machine
  int local_ranks = 1;        // of this machine
  std::string launcher = {};  // a cluster's launcher that started it (cluster.hpp); else empty
};

using rank_program = std::function<void(parallel::any_communicator&, placement const&)>;

/// mpirun: launch_mpi.cpp.
namespace by_mpirun {
[[nodiscard]] std::optional<process> started();
void run(launch_options const& options, process const& self, rank_program const& program);
}  // namespace by_mpirun

/// Program `launch`, or torchrun or srun, whose processes find each other as its do:
/// launch_gloo.cpp.
namespace by_launch {
[[nodiscard]] std::optional<process> started();
void run(launch_options const& options, process const& self, rank_program const& program);
}  // namespace by_launch

}  // namespace apps
