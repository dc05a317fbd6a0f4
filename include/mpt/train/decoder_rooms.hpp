// decoder_rooms: what a run's decoders have room for, for its memory plan.
#pragma once

#include <vector>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/task_evaluation.hpp>

namespace mpt {

/// Of all that there are in a run, one at a time.
[[nodiscard]] inline std::vector<decoder_room> decoder_rooms(train_config const& config) {
  std::vector<decoder_room> out;
  if (config.callbacks.generate)
    out.push_back(room_of(*config.callbacks.generate, config.model.max_seq_len));
  if (!config.icl.tasks.empty()) out.push_back(room_of(config.icl.tasks));
  return out;
}

}  // namespace mpt
