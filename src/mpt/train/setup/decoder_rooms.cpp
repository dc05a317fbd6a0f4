#include <mpt/train/setup/decoder_rooms.hpp>

#include <algorithm>

namespace mpt {

decoder_room room_of(std::vector<icl::task_config> const& tasks) {
  decoder_room room;
  for (auto const& task : tasks) room.tokens = std::max<index>(room.tokens, task.max_seq_len);
  return room;
}

std::vector<decoder_room> decoder_rooms(train_config const& config) {
  std::vector<decoder_room> out;
  if (config.callbacks.generate)
    out.push_back(room_of(*config.callbacks.generate, config.model.max_seq_len));
  if (!config.icl.tasks.empty()) out.push_back(room_of(config.icl.tasks));
  return out;
}

}  // namespace mpt
