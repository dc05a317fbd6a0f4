#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <parallel/comm/nccl/connect.hpp>

#include <mpt/console/say.hpp>

#include <process/exit_code.hpp>
#include "exchanges.hpp"

std::optional<apps::gpu_communicator> apps::connect_gpus(
    parallel::any_communicator& control, parallel::cuda::device& device,
    parallel::shared_deadline const& deadline,
    std::shared_ptr<parallel::flight_recorder> recorder) {
  if (control.size() == 1) return std::nullopt;
  auto const stuck = [](std::string const& sentence) {
    mpt::console::say("error: {}\n", sentence);
    std::_Exit(static_cast<int>(exit_code::timed_out));  // destructors would wait for it
  };
  auto connection = parallel::nccl::connect(
      control, device,
      {.deadline = deadline, .recorder = std::move(recorder), .when_stuck = stuck});
  if (control.rank() == 0) {
    if (connection)
      mpt::console::say("ranks exchange by NCCL {}\n", parallel::nccl::version());
    else
      mpt::console::say(
          "note: ranks share GPUs, so they exchange without NCCL, which needs a GPU for each\n");
  }
  if (!connection) return std::nullopt;
  return gpu_communicator(*std::move(connection));
}
