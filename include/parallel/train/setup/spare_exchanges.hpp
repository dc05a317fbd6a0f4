// spare_exchanges: uses memory that a training leaves free to save exchanges of its steps.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// The options of a stepper that spare_exchanges may change.
struct open_exchanges {
  bool reshard_after_forward = true;
  bool reduce_every_microbatch = true;  ///< no gain where steps have one microbatch
};

/// Turns off the open options where the bytes that a rank then needs, bytes_of(options), are at
/// most `available`, or no more than before: at level parameters reshard_after_forward, which saves
/// most for each byte, then from level gradients on reduce_every_microbatch. (In the canonical
/// order gradients are reduced once a step anyway.) Options that are off stay off. All ranks must
/// do the same, so `available` is the minimum over ranks. Cost: bytes_of, up to four times.
template <class BytesOf>
void spare_exchanges(stepper_options& options, std::size_t available, BytesOf const& bytes_of,
                     open_exchanges open = {}) {
  auto const spare = [&](bool& option) {
    if (!option) return;
    auto const previous_bytes = bytes_of(options);
    option = false;
    option = bytes_of(options) > std::max(previous_bytes, available);
  };
  if (options.level >= zero::level::parameters && open.reshard_after_forward)
    spare(options.reshard_after_forward);
  if (options.level >= zero::level::gradients && open.reduce_every_microbatch &&
      options.order == zero::reduction_order::by_rank)
    spare(options.reduce_every_microbatch);
}

}  // namespace parallel::train
