// decoder_rooms: the sizes of a run's decoders, for its memory plan.
#pragma once

#include <algorithm>
#include <vector>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/eval/icl_task.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// Room for a row of any of the tasks.
[[nodiscard]] inline decoder_room room_of(std::vector<icl::task_config> const& tasks) {
  decoder_room room;
  for (auto const& task : tasks) room.tokens = std::max<index>(room.tokens, task.max_seq_len);
  return room;
}

/// The rooms of all decoders of a run, of which one is used at a time.
[[nodiscard]] inline std::vector<decoder_room> decoder_rooms(train_config const& config) {
  std::vector<decoder_room> out;
  if (config.callbacks.generate)
    out.push_back(room_of(*config.callbacks.generate, config.model.max_seq_len));
  if (!config.icl.tasks.empty()) out.push_back(room_of(config.icl.tasks));
  return out;
}

}  // namespace mpt
