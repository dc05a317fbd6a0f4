#include <mpt/callbacks/hf_checkpointer.hpp>

namespace mpt {

bool hf_checkpointer::is_due(std::int64_t batch, training_clock const& clock, bool stopped) const {
  return mpt::is_due(settings_.save_interval, batch, clock) || (stopped && batch > 0);
}

std::filesystem::path hf_checkpointer::folder_of(std::int64_t batch, std::int64_t epoch) const {
  auto name = settings_.folder_name;
  auto const fill = [&](std::string const& placeholder, std::int64_t value) {
    for (auto position = name.find(placeholder); position != std::string::npos;
         position = name.find(placeholder))
      name.replace(position, placeholder.size(), std::to_string(value));
  };
  fill("{batch}", batch);
  fill("{epoch}", epoch);
  return std::filesystem::path(settings_.save_folder) / name;
}

}  // namespace mpt
