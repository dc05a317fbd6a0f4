#include <mpt/data/tokenizer_record.hpp>

#include <algorithm>
#include <system_error>
#include <vector>

#include <mpt/data/json.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::data {

std::optional<std::string> tokenizer_of_set(std::filesystem::path const& folder) {
  namespace fs = std::filesystem;
  std::error_code unreadable;  // an unreadable folder has no record
  std::vector<fs::path> folders{folder};
  for (auto const& entry : fs::directory_iterator(folder, unreadable))
    if (entry.path().filename().native().starts_with("part-")) folders.push_back(entry.path());
  std::sort(folders.begin() + 1, folders.end());
  for (auto const& set_folder : folders) try {
      auto const record = set_folder / "prepare.json";
      if (!fs::exists(record, unreadable)) continue;
      auto const json = parse_json(parallel::read_text_file(record, 1U << 26), record.native());
      auto const parameters = json.is_object() ? json.find("parameters") : json.end();
      if (parameters == json.end() || !parameters->is_object()) continue;
      auto const found = parameters->find("tokenizer");
      if (found != parameters->end() && found->is_string()) return found->get<std::string>();
    } catch (
        parallel::error const&) {  // a file of another program, which does not name a tokenizer
      continue;
    }
  return std::nullopt;
}

std::string other_tokenizer_note(std::filesystem::path const& folder,
                                 std::filesystem::path const& tokenizer) {
  namespace fs = std::filesystem;
  std::error_code unreadable;  // the tokenizer is then not known
  auto const file =
      fs::is_directory(tokenizer, unreadable) ? tokenizer / "tokenizer.json" : tokenizer;
  if (tokenizer.empty() || !fs::is_regular_file(file, unreadable)) return {};
  auto const set_fingerprint = tokenizer_of_set(folder);
  if (!set_fingerprint) return {};
  auto const file_fingerprint = parallel::hexadecimal(
      tokenizer_fingerprint(parallel::read_text_file(file, largest_tokenizer_file)));
  if (file_fingerprint == *set_fingerprint) return {};
  return parallel::concat(folder.native(), " was made with another tokenizer than ", file.native(),
                          " (its prepare.json has ", set_fingerprint->substr(0, 16), ", that file ",
                          file_fingerprint,
                          "): unless the two files differ only in form, its ids stand for other "
                          "tokens; name the tokenizer that made the set, or make the set again");
}

}  // namespace mpt::data
