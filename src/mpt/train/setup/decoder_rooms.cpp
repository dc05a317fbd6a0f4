#include <mpt/train/setup/decoder_rooms.hpp>

#include <algorithm>

namespace mpt {

decoder_room room_of(std::vector<eval::task_config> const& tasks) {
  decoder_room room;
  for (auto const& task : tasks) room.tokens = std::max<index>(room.tokens, task.max_seq_len);
  return room;
}

std::vector<decoder_room> decoder_rooms(model_config const& model,
                                        evaluation_config const& evaluation,
                                        callbacks_config const& callbacks) {
  std::vector<decoder_room> out;
  if (callbacks.generate) out.push_back(room_of(*callbacks.generate, model.max_seq_len));
  if (!evaluation.icl.tasks.empty()) out.push_back(room_of(evaluation.icl.tasks));
  return out;
}

}  // namespace mpt
