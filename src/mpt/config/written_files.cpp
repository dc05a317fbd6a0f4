#include <mpt/config/written_files.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include <mpt/log/run_journal.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/checkpoint/claims/claim_file.hpp>
#include <parallel/checkpoint/save_target.hpp>

namespace mpt {
namespace {

namespace fs = std::filesystem;

/// The path without links, as far as it exists; a link to a file that is not there yet is followed.
[[nodiscard]] fs::path resolved(fs::path const& path) {
  std::error_code unreadable;
  auto out = fs::absolute(path);
  for (int links = 0; links < 40; ++links) {
    out = fs::weakly_canonical(out, unreadable);
    if (unreadable || !fs::is_symlink(out, unreadable)) break;
    out = out.parent_path() / fs::read_symlink(out, unreadable);
  }
  return out;
}

/// Whether a run writes a file or folder of this name into its save_folder by itself.
[[nodiscard]] bool is_name_of_run(std::string_view name) {
  namespace pc = parallel::checkpoint;
  constexpr std::array names{journal_name, std::string_view("summary.json"),
                             std::string_view("summary.json.tmp"), std::string_view("plan.svg"),
                             std::string_view("trackers")};
  return pc::is_name_in_root(name) || !pc::name_of_leftover(name).empty() ||
         name.starts_with(pc::claim_files::name_head) || name.starts_with("flight-rank") ||
         std::ranges::find(names, name) != names.end();
}

}  // namespace

std::string file_conflict(fs::path const& file, fs::path const& save_folder,
                          std::vector<fs::path> const& others) {
  if (file.empty()) return {};
  auto const path = resolved(file);
  auto const name = parallel::concat("'", printable(file.native()), "' ");
  for (auto const& other : others)
    if (!other.empty() && resolved(other) == path)
      return name + "is written by another setting, too; choose another name";
  if (save_folder.empty()) return {};
  auto const inside = path.lexically_relative(resolved(save_folder));
  if (inside == ".") return name + "is save_folder; name a file";
  if (inside.empty() || !is_name_of_run(inside.begin()->native())) return {};
  return parallel::concat(name, "is in save_folder, where the run itself writes ",
                          printable(inside.begin()->native()), "; choose another name");
}

}  // namespace mpt
