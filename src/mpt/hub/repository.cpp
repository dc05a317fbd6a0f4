#include <mpt/hub/repository.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::hub {
namespace {

[[nodiscard]] bool is_name_letter(char letter) {
  auto const code = static_cast<unsigned char>(letter);
  return code < 0x80 &&
         (std::isalnum(code) != 0 || letter == '-' || letter == '_' || letter == '.');
}

[[nodiscard]] bool is_name_part(std::string_view part) {
  constexpr std::string_view ends = "-.";
  return !part.empty() && std::ranges::all_of(part, is_name_letter) &&
         ends.find(part.front()) == ends.npos && ends.find(part.back()) == ends.npos;
}

}  // namespace

std::string repository::folder() const {
  auto out = std::string(kind == repository_kind::model ? "models--" : "datasets--");
  for (char const letter : name) out += letter == '/' ? std::string("--") : std::string(1, letter);
  return out;
}

std::string repository::web_path() const {
  return (kind == repository_kind::model ? "/" : "/datasets/") + name;
}

std::string repository::api_path() const {
  return (kind == repository_kind::model ? "/api/models/" : "/api/datasets/") + name;
}

bool is_repository_name(std::string_view name) {
  if (name.size() > 96 || name.find("--") != name.npos || name.find("..") != name.npos ||
      name.ends_with(".git"))
    return false;
  auto const slash = name.find('/');
  if (slash == name.npos) return is_name_part(name);
  return is_name_part(name.substr(0, slash)) && is_name_part(name.substr(slash + 1));
}

bool means_repository(std::string const& text) {
  constexpr std::array<std::string_view, 12> endings = {
      ".yaml", ".yml", ".json",    ".jsonl", ".csv", ".txt",
      ".gz",   ".zst", ".parquet", ".pt",    ".bin", ".safetensors"};
  return text.find('/') != std::string::npos && is_repository_name(text) &&
         std::ranges::none_of(endings, [&](auto ending) { return text.ends_with(ending); }) &&
         !parallel::files::exists(text);
}

std::optional<repository> repository_of_snapshot(std::filesystem::path const& folder) {
  auto const snapshots = folder.parent_path();
  auto const cached = snapshots.parent_path().filename().string();
  if (!is_commit(folder.filename().string()) || snapshots.filename() != "snapshots") return {};
  for (auto const kind : {repository_kind::model, repository_kind::dataset}) {
    auto const prefix = repository{kind, ""}.folder();
    if (!cached.starts_with(prefix)) continue;
    repository found{kind, cached.substr(prefix.size())};
    if (auto const slash = found.name.find("--"); slash != std::string::npos)
      found.name.replace(slash, 2, "/");
    if (is_repository_name(found.name)) return found;
  }
  return {};
}

std::string revision_of_snapshot(std::filesystem::path const& folder) {
  auto commit = folder.filename().string();
  return commit_in_ref(folder.parent_path().parent_path() / "refs" / "main") == commit ? "main"
                                                                                       : commit;
}

std::string commit_in_ref(std::filesystem::path const& ref) {
  std::error_code absent;
  if (!std::filesystem::is_regular_file(ref, absent)) return {};
  auto commit = parallel::read_text_file(ref, 4096);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
  return is_commit(commit) ? commit : std::string();
}

void check_revision(std::string_view revision) {
  bool is_good = !revision.empty() && revision.size() <= 200;
  for (std::size_t begin = 0; is_good && begin <= revision.size();) {
    auto const end = std::min(revision.find('/', begin), revision.size());
    auto const part = revision.substr(begin, end - begin);
    is_good = parallel::is_plain_name(part) && part.front() != '.' &&
              part.find("..") == part.npos && part.find_first_of(" ~^:?*[") == part.npos;
    begin = end + 1;
  }
  parallel::require(is_good, "'", revision,
                    "' is no revision; expected a branch, a tag or a commit, such as main");
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
         });
}

}  // namespace mpt::hub
