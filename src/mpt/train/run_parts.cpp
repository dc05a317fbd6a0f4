#include <mpt/train/run_parts.hpp>

#include <string_view>

namespace mpt {

run_parts const& checked_parts(icl_config const& icl, callbacks_config const& callbacks,
                               loggers_config const& loggers, run_parts const& parts) {
  auto const require_part = [](bool is_needed, bool is_given, std::string_view part_name) {
    require(!is_needed || is_given, "a run with ", part_name,
            " needs it read before; give the parts that read_run_parts makes");
  };
  require_part(true, parts.data != nullptr, "a train_loader");
  require_part(!icl.tasks.empty(), parts.tasks != nullptr, "icl_tasks");
  require_part(callbacks.generate.has_value(), parts.prompts != nullptr, "a generate_callback");
  require_part(callbacks.hf_checkpointer.has_value(), parts.exports != nullptr,
               "an hf_checkpointer");
  require_part(loggers.has_trackers(), parts.open_trackers != nullptr,
               "trackers among its loggers");
  return parts;
}

}  // namespace mpt
