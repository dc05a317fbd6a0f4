#include <mpt/log/run_journal.hpp>

#include <chrono>
#include <system_error>

#include <parallel/core/error.hpp>

namespace mpt {

run_journal::run_journal(std::filesystem::path const& save_folder) {
  if (save_folder.empty()) return;
  auto const file = save_folder / journal_name;
  std::error_code absent;
  parallel::require(!std::filesystem::is_symlink(file, absent), file.native(),
                    ": is a link, and nothing is written through it; remove it");
  file_ = open_for_appending(file, "", "");
  file_.end_last_line();
}

void run_journal::add(std::string_view event, nlohmann::ordered_json const& fields) {
  auto const time = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json record{{"event", event},
                                {"time", std::chrono::duration<double>(time).count()}};
  for (auto const& [name, value] : fields.items()) record[name] = value;
  // a text that is not UTF-8, such as a file's name in a note, must not end the run
  file_.add(record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace mpt
