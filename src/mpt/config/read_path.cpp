#include <mpt/config/read_path.hpp>

#include <utility>

#include <mpt/config/data/loader.hpp>
#include <mpt/config/train.hpp>

namespace mpt::detail {

std::string with_run_name(std::string path, std::string const& run_name) {
  return fill_in(std::move(path), "{run_name}", run_name);
}

std::string read_path(config_reader& reader, std::string_view key, std::string const& run_name,
                      std::string_view later_mark) {
  auto const path = reader.get<std::string>(key, "");
  reader.check(key, !is_remote(path), "'", printable(path),
               "' is not yet supported; use a path on this machine");
  auto with_name = with_run_name(path, run_name);
  constexpr std::string_view rank = "{rank}";
  auto const slash = path.rfind('/');
  reader.check(key, key != "load_path" || path.find(rank) == std::string::npos, "'",
               printable(path),
               "' is how Composer names its files; of a run of ours give the "
               "folder, ",
               printable(slash == std::string::npos ? "." : path.substr(0, slash)),
               ", whose latest checkpoint is taken, and of Composer's the file of rank 0, ",
               printable(fill_in(path, rank, "0")));
  auto const unmarked = later_mark.empty() ? with_name : fill_in(with_name, later_mark, "");
  reader.check(key, unmarked.find('{') == std::string::npos, "'", printable(path),
               "': only {run_name}", later_mark.empty() ? "" : " and ", later_mark,
               " can be in braces");
  return with_name;
}

}  // namespace mpt::detail
