// nccl::connect: ranks that another communicator connects already, of threads, MPI or gloo, are
// given one of NCCL's for their GPUs' memory.
//
// NCCL's unique id travels over the other communicator, and so do failures, in both directions: a
// rank that fails in an exchange of NCCL ends what others wait for there and here, and who aborts
// the other communicator ends NCCL's within a moment, with the reason.
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

/// Of ranks that are connected by `over`: an abort of it is a notice, and a notice one.
template <tells_aborts Control>
class control_board final : public notice_board {
 public:
  /// `over` must outlive it.
  explicit control_board(Control& over) : over_(over) {}

  void post(int /*rank*/, std::string const& problem) override { over_.abort(problem); }
  [[nodiscard]] std::optional<std::string> read() override { return over_.abort_reason(); }

 private:
  Control& over_;
};

/// A communicator of the ranks of `control`, in their order, for the memory of their `device`s;
/// none where two of them have the same GPU, which NCCL refuses. Collective over `control`, which
/// must outlive it. From then on the device takes what is exchanged from NCCL's memory. Throws
/// `error` when NCCL refuses, `timed_out` when not all ranks come before
/// the deadline.
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
