// decoder_rooms: the sizes of a run's decoders, for its memory plan.
#pragma once

#include <vector>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/config/data/icl_task.hpp>
#include <mpt/config/train.hpp>
#include <mpt/generate/text_model.hpp>

namespace mpt {

/// Room for a row of any of the tasks.
[[nodiscard]] decoder_room room_of(std::vector<eval::task_config> const& tasks);

/// The rooms of all decoders of a run, of which one is used at a time.
[[nodiscard]] std::vector<decoder_room> decoder_rooms(model_config const& model,
                                                      evaluation_config const& evaluation,
                                                      callbacks_config const& callbacks);

}  // namespace mpt
