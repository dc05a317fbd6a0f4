// nccl::connect: makes an NCCL communicator for the GPU memory of ranks that another communicator
// (threads, MPI or gloo) already connects.
//
// NCCL's unique id is sent over the other communicator, and failures travel in both directions: a
// rank that fails in an NCCL exchange also aborts the other communicator, and an abort of the other
// communicator ends NCCL's within a moment, with the reason.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <parallel/comm/concepts.hpp>
#include <parallel/comm/nccl/communicator.hpp>
#include <parallel/comm/nccl/notice_board.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::nccl {

/// Passes failures between NCCL and the communicator `control`: a posted notice aborts `control`,
/// and an abort of `control` appears as a notice.
template <tells_aborts Control>
class control_board final : public notice_board {
 public:
  /// `control` must outlive it.
  explicit control_board(Control& control) : control_(control) {}

  void post(int /*rank*/, std::string const& problem) override { control_.abort(problem); }
  [[nodiscard]] std::optional<std::string> read() override { return control_.abort_reason(); }

 private:
  Control& control_;
};

/// Makes a communicator of the ranks of `control`, in the same order, for the memory of each rank's
/// `device`. Returns nothing if two ranks have the same GPU, which NCCL does not allow. All ranks
/// of `control` must call it, and `control` must outlive the communicator. Afterwards the device
/// allocates exchanged memory by NCCL. Throws `error` when NCCL fails, and `timed_out` when not all
/// ranks have called it before the deadline.
template <tells_aborts Control>
[[nodiscard]] std::optional<communicator> connect(Control& control, cuda::device& device,
                                                  communicator_options options = {}) {
  host::stream s;
  auto const gpus = gather_texts(control, s, device.identity());
  if (std::set(gpus.begin(), gpus.end()).size() < gpus.size()) return std::nullopt;
  cuda::device_scope const scope(device.ordinal());
  ncclUniqueId id = {};
  if (control.rank() == 0) id = make_unique_id();
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&id);
  control.broadcast(s, std::span<std::uint8_t>(bytes, sizeof id), 0).wait();
  communicator out(id, control.rank(), control.size(), options,
                   std::make_shared<control_board<Control>>(control));
  device.take_exchanged_from(out.exchanged_memory());
  return out;
}

}  // namespace parallel::nccl
