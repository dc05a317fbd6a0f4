#include <mpt/hub/fetch_repository.hpp>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <mpt/net/url.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/file_lock.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_pages = 10'000;

/// The folders of one repository in the cache.
struct cache_paths {
  fs::path root;
  fs::path locks;

  cache_paths(settings const& hub, repository const& wanted)
      : root(hub.cache / wanted.folder()), locks(hub.cache / ".locks" / wanted.folder()) {}
  [[nodiscard]] fs::path ref(std::string const& revision) const { return root / "refs" / revision; }
  [[nodiscard]] fs::path tree(std::string const& commit) const {
    return root / "trees" / (commit + ".json");
  }
  [[nodiscard]] fs::path snapshot(std::string const& commit) const {
    return root / "snapshots" / commit;
  }
  [[nodiscard]] fs::path blob(listed_file const& file) const {
    return root / "blobs" / file.blob();
  }
};

/// Locks a file during its lifetime by flock(2), as Python's filelock has it, so that the hub's own
/// programs and ours wait for each other. The kernel unlocks it when the process dies.
class file_lock {
 public:
  /// Makes `file` and its folder where they are absent. Waits while another process has the lock,
  /// and calls `on_wait` once before that. A file system without locks leaves it unlocked.
  file_lock(fs::path const& file, std::function<void()> const& on_wait) {
    namespace files = parallel::files;
    files::require_no_links(files::parent_folder(file).parent_path().parent_path(), file);
    files::make_folders(files::parent_folder(file));
    for (bool has_waited = false;;) {
      handle_ = parallel::descriptor(
          ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664));
      if (handle_.get() < 0) files::failure(file, "cannot create this lock");
      if (files::try_lock(handle_.get()) == files::lock_result::busy) {
        if (!std::exchange(has_waited, true)) on_wait();
        static_cast<void>(files::wait_for_lock(handle_.get()));
      }
      if (files::is_named(handle_.get(), file)) return;
    }
  }

 private:
  parallel::descriptor handle_;
};

/// Writes a small file below `root` under a temporary name, and renames it: several processes may
/// do so.
void publish(fs::path const& root, fs::path const& file, std::string const& text) {
  parallel::files::require_no_links(root, file);
  parallel::files::make_folders(file.parent_path());
  auto temporary = file;
  temporary += fmt::format(".{}.tmp", ::getpid());
  parallel::write_text_file(temporary, text);
  parallel::files::rename(temporary, file);
}

[[nodiscard]] bool is_here(fs::path const& path) {
  std::error_code absent;
  return fs::exists(path, absent);
}

/// The commit at which the cache last saw a revision; empty if it never did.
[[nodiscard]] std::string cached_commit(cache_paths const& paths, std::string const& revision) {
  return is_commit(revision) ? revision : commit_in_ref(paths.ref(revision));
}

/// Whether a file has the length and the checksum of the hub's listing.
[[nodiscard]] bool is_sound(listed_file const& file, fs::path const& path) {
  auto const wanted = file.content();
  std::error_code absent;
  return fs::file_size(path, absent) == file.size &&
         net::digest_of_file(path, *wanted.checksum) == wanted.checksum->hexadecimal;
}

/// The files of a snapshot that are links to blobs, whose names are their checksums.
[[nodiscard]] listing linked_files(fs::path const& snapshot) {
  listing out;
  std::error_code absent;
  for (fs::recursive_directory_iterator entry(snapshot, absent), end; !absent && entry != end;
       entry.increment(absent)) {
    if (!entry->is_symlink() || !entry->is_regular_file()) continue;
    auto const name = fs::read_symlink(entry->path()).filename().native();
    if (!parallel::is_hexadecimal(name) || (name.size() != 40 && name.size() != 64)) continue;
    out.push_back({.path = entry->path().lexically_relative(snapshot).native(),
                   .size = entry->file_size(),
                   .git_id = name.size() == 40 ? name : std::string(),
                   .sha256 = name.size() == 64 ? name : std::string()});
  }
  return out;
}

[[nodiscard]] std::string first_names(listing const& files) {
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(files.size(), 3); ++i)
    out += (i == 0 ? "" : ", ") + files[i].path;
  return out + (files.size() > 3 ? fmt::format(" and {} more", files.size() - 3) : std::string());
}

[[nodiscard]] std::string described(wanted_repository const& wanted) {
  return fmt::format("{}{}{}", wanted.repository.kind == repository_kind::dataset ? "dataset " : "",
                     wanted.repository.name,
                     wanted.revision == "main" ? "" : "@" + wanted.revision);
}

/// The command that gets a repository, for messages.
[[nodiscard]] std::string fetch_command(wanted_repository const& wanted) {
  return fmt::format(
      "fetch {}{}{}", wanted.repository.kind == repository_kind::dataset ? "--dataset " : "",
      wanted.repository.name, wanted.revision == "main" ? "" : " --revision " + wanted.revision);
}

/// Throws if the commit or the files of a revision could not be fetched from the hub; says why.
[[noreturn]] void refuse(net::http_response const& response, wanted_repository const& wanted,
                         settings const& hub) {
  auto const code = response.header("x-error-code").value_or("");
  auto const page = hub.endpoint + wanted.repository.web_path();
  auto const token = hub.token.empty()
                         ? std::string("no token is set: set HF_TOKEN to one of your account")
                         : "the token of " + hub.token_source + " was sent";
  if (code == "RevisionNotFound")
    parallel::fail(page, ": has no branch, tag or commit \"", wanted.revision, "\"");
  if (code == "GatedRepo" || response.status == 403)
    parallel::fail(page, ": is only for those whom its owner lets in (", token,
                   "); ask for access on that page, with the account of the token");
  if (response.status == 401 || response.status == 404)
    parallel::fail(
        page, ": the hub has no such ",
        wanted.repository.kind == repository_kind::model ? "model" : "dataset",
        ", or does not show it (", net::describe_status(response.status), "; ", token,
        "); check the name",
        wanted.repository.kind == repository_kind::model ? "" : ", and that it is a dataset's",
        wanted.repository.name.starts_with("mosaicml/")
            ? "; mosaicml's repositories are gone from the hub: name the folder of a copy"
            : "");
  parallel::fail(page, ": the hub answers ", net::describe_status(response.status),
                 "; try again later");
}

class fetch {
 public:
  fetch(wanted_repository const& wanted, settings const& hub, network_maker const& network,
        fetch_events const& events)
      : wanted_(wanted),
        hub_(hub),
        make_network_(network),
        events_(events),
        paths_(hub, wanted.repository) {}

  [[nodiscard]] snapshot run() {
    if (hub_.offline) return cached("HF_HUB_OFFLINE is set, so nothing is downloaded");
    try {
      network_.emplace(make_network_());
    } catch (parallel::error const& problem) {  // a build without libcurl
      return without_hub(problem.what());
    }
    try {
      return download_missing();
    } catch (net::connection_error const& problem) {
      return without_hub(problem.what());
    }
  }

 private:
  void note(std::string const& sentence) const {
    if (events_.note) events_.note(sentence);
  }

  /// The files in the cache, after the hub could not be asked.
  [[nodiscard]] snapshot without_hub(std::string const& reason) {
    auto found = cached(reason);
    note(fmt::format("{}; taking {} from the cache, as of commit {}", reason, described(wanted_),
                     found.commit.substr(0, 12)));
    return found;
  }

  [[nodiscard]] snapshot cached(std::string const& reason) const {
    auto const commit = cached_commit(paths_, wanted_.revision);
    auto const folder = paths_.snapshot(commit);
    parallel::require(!commit.empty() && is_here(folder), described(wanted_),
                      ": is not in the cache ", hub_.cache.native(), ", and ", reason,
                      "; get it once with access to the hub (", fetch_command(wanted_),
                      "), or name a folder");
    snapshot out{folder, commit, {}, 0};
    if (auto const tree = read_tree(paths_.tree(commit))) {
      out.files = chosen(*tree);
      listing missing;
      for (auto const& file : out.files)
        if (!is_here(folder / file.path)) missing.push_back(file);
      parallel::require(missing.empty(), described(wanted_),
                        ": the cache has only a part of it: ", missing.size(), " of ",
                        out.files.size(), " files are missing (", first_names(missing), "), and ",
                        reason, "; get the rest once with access to the hub");
    } else if (wanted_.missing_file) {
      auto const missing = wanted_.missing_file(folder);
      parallel::require(missing.empty(), described(wanted_),
                        ": the cache has only a part of it, as another program left it: ", missing,
                        " is missing, and ", reason, "; get the rest once with access to the hub");
    }
    listing linked;  // in place of the listing that is not there
    if (out.files.empty() && !wanted_.may_be_empty)
      linked = wanted_.choice ? wanted_.choice(linked_files(folder)) : linked_files(folder);
    if (!wanted_.checks_contents) return out;
    for (auto const& file : damaged(out.files.empty() ? linked : out.files, folder))
      parallel::fail((folder / file.path).native(),
                     ": has not the length and checksum that the hub has for it: the cache is "
                     "damaged, and ",
                     reason, "; get it again with access to the hub (", fetch_command(wanted_),
                     ")");
    return out;
  }

  [[nodiscard]] listing chosen(listing const& files) const {
    auto out = wanted_.choice ? wanted_.choice(files) : files;
    parallel::require(wanted_.may_be_empty || !out.empty(), described(wanted_),
                      ": no file of it is asked for; it has ",
                      files.empty() ? "none" : first_names(files));
    return out;
  }

  /// The files in the cache that are not those of the hub's listing, by their checksums.
  [[nodiscard]] listing damaged(listing const& files, fs::path const& folder) const {
    std::vector<char> is_good(files.size(), 1);
    std::atomic<std::size_t> next = 0;
    auto const compare = [&] {
      for (std::size_t i = 0; (i = next++) < files.size();)
        if (files[i].size <= wanted_.largest_checked_file && is_here(folder / files[i].path))
          is_good[i] = is_sound(files[i], folder / files[i].path);
    };
    auto const cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::future<void>> workers;
    for (std::size_t i = 0; i < std::min<std::size_t>({files.size(), cores, 8}); ++i)
      workers.push_back(std::async(std::launch::async, compare));
    for (auto& worker : workers) worker.get();
    listing out;
    for (std::size_t i = 0; i < files.size(); ++i)
      if (is_good[i] == 0) out.push_back(files[i]);
    return out;
  }

  [[nodiscard]] net::http_request request_for(std::string const& url) const {
    net::http_request request;
    request.url = url;
    request.bearer_token = hub_.token;
    request.timeouts.idle = hub_.idle_timeout;
    return request;
  }

  [[nodiscard]] net::http_response ask(std::string const& url) const {
    auto request = request_for(url);
    request.headers.emplace_back("Accept", "application/json");
    auto response = network_->client.send_retrying(request);
    if (net::is_temporary(response.status))
      throw net::connection_error(net::parse_url(url).displayed() + " answers " +
                                  net::describe_status(response.status));
    if (!response.succeeded()) refuse(response, wanted_, hub_);
    return response;
  }

  [[nodiscard]] std::string commit_of_revision() const {
    auto const url = hub_.endpoint + wanted_.repository.api_path() + "/revision/" +
                     net::percent_encoded(wanted_.revision);
    auto const response = ask(url);
    auto const commit = data::string_member(data::parse_json(response.body, url), "sha", url);
    parallel::require(is_commit(commit), url,
                      ": the server's answer names no commit; does HF_ENDPOINT lead to a hub?");
    return commit;
  }

  [[nodiscard]] listing tree_of_commit(std::string const& commit) const {
    if (auto tree = read_tree(paths_.tree(commit))) return *tree;
    listing files;
    std::set<std::string> paths, pages;
    auto url = hub_.endpoint + wanted_.repository.api_path() + "/tree/" + commit +
               "?recursive=true&expand=false";
    while (!url.empty()) {
      auto const source = net::parse_url(url).displayed();
      parallel::require(pages.insert(url).second && pages.size() <= max_pages, source,
                        ": the hub's listing has no end: it goes on with pages that were read");
      auto const response = ask(url);
      auto const count = files.size();
      add_page(files, data::parse_json(response.body, source), source);
      for (std::size_t i = count; i < files.size(); ++i)
        parallel::require(paths.insert(files[i].path).second, source, ": lists \"", files[i].path,
                          "\" twice");
      url = next_page(response);
    }
    check_paths(files, hub_.endpoint + wanted_.repository.web_path());
    publish(paths_.root, paths_.tree(commit), tree_text(files));
    return files;
  }

  /// The address in a header like Link: <https://...>; rel="next". A mirror may pass on the name of
  /// the server that it copies; the page is asked of the mirror, which alone gets the token.
  [[nodiscard]] std::string next_page(net::http_response const& response) const {
    auto const link = response.header("link").value_or("");
    auto const end = link.find(">; rel=\"next\"");
    if (end == std::string::npos) return {};
    auto const begin = link.rfind('<', end);
    if (begin == std::string::npos) return {};
    auto const page = net::parse_url(response.url);
    auto const next = net::join_url(page, link.substr(begin + 1, end - begin - 1));
    if (next.has_server_of(net::parse_url(hub_.endpoint))) return next.text();
    auto const target = next.text();
    auto const path = target.find("/api/");
    parallel::require(path != std::string::npos, page.displayed(),
                      ": the listing goes on at another server, ", next.displayed(),
                      ", which is not asked");
    return hub_.endpoint + target.substr(path);
  }

  [[nodiscard]] snapshot download_missing() {
    auto const commit = is_commit(wanted_.revision) ? wanted_.revision : commit_of_revision();
    snapshot out{paths_.snapshot(commit), commit, chosen(tree_of_commit(commit)), 0};
    for (auto const& file : out.files) all_bytes_ += file.size;
    check_space(out);
    if (wanted_.checks_contents)
      for (auto const& file : damaged(out.files, out.folder)) {
        note(
            fmt::format("{} of {} in the cache has another checksum than the hub's; downloading it "
                        "again",
                        file.path, described(wanted_)));
        parallel::files::require_no_links(paths_.root, out.folder / file.path);
        static_cast<void>(::unlink((out.folder / file.path).c_str()));
      }
    for (auto const& file : out.files) {
      if (!is_here(out.folder / file.path)) out.downloaded_bytes += get_file(file, commit);
      present_bytes_ += file.size;
    }
    if (wanted_.revision != commit && cached_commit(paths_, wanted_.revision) != commit)
      publish(paths_.root, paths_.ref(wanted_.revision), commit);
    return out;
  }

  void report(listed_file const& file, std::uint64_t bytes) const {
    if (events_.progress) events_.progress(present_bytes_ + bytes, all_bytes_, file.path);
  }

  void check_space(snapshot const& wanted) const {
    std::uint64_t missing = 0;
    std::set<std::string> counted;
    for (auto const& file : wanted.files)
      if (!is_here(paths_.blob(file)) && counted.insert(file.blob()).second) {
        auto unfinished = paths_.blob(file);
        unfinished += ".incomplete";
        std::error_code absent;
        auto const present = fs::file_size(unfinished, absent);
        missing += absent || present > file.size ? file.size : file.size - present;
      }
    parallel::files::make_folders(paths_.root / "blobs");
    struct ::statvfs disk {};
    if (missing == 0 || ::statvfs(paths_.root.c_str(), &disk) != 0) return;
    auto const room = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (missing > room)
      parallel::fail<parallel::storage_error>(
          hub_.cache.native(), ": has ", room, " bytes free, and ", described(wanted_), " needs ",
          missing, " more; make room, or set HF_HUB_CACHE to a folder on a larger disk");
  }

  /// Returns the number of bytes that were downloaded.
  [[nodiscard]] std::uint64_t get_file(listed_file const& file, std::string const& commit) {
    file_lock const lock(paths_.locks / (file.blob() + ".lock"), [&] {
      note(fmt::format("another process is downloading {}; waiting for it", file.path));
    });
    auto const blob = paths_.blob(file);
    if (wanted_.checks_contents && is_here(blob) && !is_sound(file, blob)) {
      static_cast<void>(::unlink(blob.c_str()));
      parallel::require(!is_here(blob), blob.native(), ": is no file of the hub; remove it");
    }
    std::uint64_t bytes = 0;
    if (!is_here(blob)) {
      auto const url = hub_.endpoint + wanted_.repository.web_path() + "/resolve/" + commit + "/" +
                       net::percent_encoded(file.path, true);
      auto const response = net::download(*network_, request_for(url), blob, file.content(),
                                          [&](std::uint64_t count) { report(file, count); });
      if (net::is_temporary(response.status))
        throw net::connection_error(net::parse_url(url).displayed() + " answers " +
                                    net::describe_status(response.status));
      if (!response.succeeded()) refuse_file(response, file);
      bytes = file.size;
    }
    link_blob(file, paths_.snapshot(commit) / file.path);
    return bytes;
  }

  [[noreturn]] void refuse_file(net::http_response const& response, listed_file const& file) const {
    auto const server = net::parse_url(response.url);
    if (response.status != 404 && server.has_server_of(net::parse_url(hub_.endpoint)))
      refuse(response, wanted_, hub_);
    parallel::fail(server.displayed(), ": the hub lists ", file.path, " of ", described(wanted_),
                   ", but its server answers ", net::describe_status(response.status));
  }

  void link_blob(listed_file const& file, fs::path const& link) const {
    if (is_here(link)) return;
    parallel::files::require_no_links(paths_.root, link);
    parallel::files::make_folders(link.parent_path());
    static_cast<void>(::unlink(link.c_str()));  // a link to a blob that was removed
    fs::path up = fs::path("..") / "..";
    for (char const letter : file.path)
      if (letter == '/') up /= "..";
    std::error_code problem;
    fs::create_symlink(up / "blobs" / file.blob(), link, problem);
    if (problem && problem != std::errc::file_exists)  // a file system without links
      fs::copy_file(paths_.blob(file), link, fs::copy_options::overwrite_existing);
  }

  wanted_repository const& wanted_;
  settings const& hub_;
  network_maker const& make_network_;
  fetch_events const& events_;
  cache_paths paths_;
  std::optional<net::network> network_;
  std::uint64_t present_bytes_ = 0;  ///< of the files that are whole
  std::uint64_t all_bytes_ = 0;
};

}  // namespace

wanted_repository wanted_model(std::string const& name, weights choice,
                               std::string const& revision) {
  wanted_repository out;
  out.repository.name = name;
  out.revision = revision;
  out.choice = [choice](listing const& files) { return model_files(files, choice); };
  out.missing_file = [choice](std::filesystem::path const& folder) {
    return missing_model_file(folder, choice);
  };
  return out;
}

std::optional<snapshot> cached_repository(wanted_repository const& wanted,
                                          settings const& where_from) {
  auto offline = where_from;
  offline.offline = true;
  try {
    return fetch_repository(wanted, offline, {});
  } catch (parallel::error const&) {
    return std::nullopt;
  }
}

snapshot fetch_repository(wanted_repository const& wanted, settings const& where_from,
                          network_maker const& network, fetch_events const& events) {
  parallel::require(is_repository_name(wanted.repository.name), "'", wanted.repository.name,
                    "' is no name of the hub; expected ORG/NAME, such as mosaicml/mpt-7b");
  check_revision(wanted.revision);
  return fetch(wanted, where_from, network, events).run();
}

}  // namespace mpt::hub
