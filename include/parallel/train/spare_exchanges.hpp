// spare_exchanges: memory that a training leaves spares exchanges of its steps.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// Which options of a stepper are open to spare_exchanges.
struct open_exchanges {
  bool reshard_after_forward = true;
  bool reduce_every_microbatch = true;  // no gain where steps have one microbatch
};

/// On all ranks alike, so `available` is the least of them. Turns off what is open, where
/// bytes_of(options), the bytes that a rank then needs, are at most `available`, or no more than
/// before: at level parameters reshard_after_forward, of which a byte spares most, then from level
/// gradients on reduce_every_microbatch. (In the canonical order gradients are reduced once a step
/// anyway.) Options that are off stay so. Cost: bytes_of, up to four times.
template <class BytesOf>
void spare_exchanges(stepper_options& options, std::size_t available, BytesOf const& bytes_of,
                     open_exchanges open = {}) {
  auto const spare = [&](bool& often) {
    if (!often) return;
    auto const before = bytes_of(options);
    often = false;
    often = bytes_of(options) > std::max(before, available);
  };
  if (options.level >= zero::level::parameters && open.reshard_after_forward)
    spare(options.reshard_after_forward);
  if (options.level >= zero::level::gradients && open.reduce_every_microbatch &&
      options.order == zero::reduction_order::by_rank)
    spare(options.reduce_every_microbatch);
}

}  // namespace parallel::train
