#include <mpt/hub/settings.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <mpt/ascii.hpp>
#include <mpt/net/url.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::hub {
namespace {

namespace fs = std::filesystem;

[[nodiscard]] std::string nonempty(environment const& variables, char const* name) {
  return variables(name).value_or("");
}

/// A path with the home folder for ~ and the values of $NAME and ${NAME}, as huggingface_hub reads
/// it; an unknown variable stays as it is written.
[[nodiscard]] fs::path expanded(std::string path, environment const& variables) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, variables("HOME").value_or(""));
  std::string out;
  for (std::size_t i = 0; i < path.size();) {
    auto const is_name_letter = [&](std::size_t position) {
      return position < path.size() &&
             (path[position] == '_' ||
              std::isalnum(static_cast<unsigned char>(path[position])) != 0);
    };
    auto end = i + 1;
    std::string name;
    if (path[i] == '$' && end < path.size() && path[end] == '{') {
      end = path.find('}', end);
      if (end != path.npos) name = path.substr(i + 2, end++ - i - 2);
    } else if (path[i] == '$') {
      while (is_name_letter(end)) ++end;
      name = path.substr(i + 1, end - i - 1);
    }
    auto const value = name.empty() ? std::nullopt : variables(name);
    end = value ? end : i + 1;
    out += value ? *value : path.substr(i, 1);
    i = end;
  }
  return out;
}

[[nodiscard]] bool is_true(std::string_view text) {
  auto const value = lower_case(text);
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

/// A token without the blanks around it. Throws if it is none: a header cannot hold it.
[[nodiscard]] std::string checked_token(std::string_view text, std::string const& source) {
  text = trimmed(text);
  parallel::require(
      std::ranges::all_of(text, [](char letter) { return letter > 0x20 && letter < 0x7f; }), source,
      ": is no token of the hub (it has blanks or other characters inside)");
  return std::string(text);
}

void read_token(environment const& variables, fs::path const& home, settings& out) {
  for (char const* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    out.token = checked_token(nonempty(variables, name), name);
    out.token_source = name;
    if (!out.token.empty()) return;
  }
  auto const named = nonempty(variables, "HF_TOKEN_PATH");
  auto const file = named.empty() ? home / "token" : expanded(named, variables);
  std::error_code absent;
  out.token_source.clear();
  if (!fs::is_regular_file(file, absent)) return;
  out.token = checked_token(parallel::read_text_file(file, 4096), file.native());
  if (!out.token.empty()) out.token_source = file.native();
}

}  // namespace

std::optional<std::string> process_environment(std::string const& name) {
  char const* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

settings read_settings(environment const& variables) {
  settings out;
  auto home = expanded(nonempty(variables, "HF_HOME"), variables);
  if (home.empty()) {
    auto const caches = nonempty(variables, "XDG_CACHE_HOME");
    home = (caches.empty() ? fs::path(nonempty(variables, "HOME")) / ".cache"
                           : expanded(caches, variables)) /
           "huggingface";
  }
  out.cache = expanded(nonempty(variables, "HF_HUB_CACHE"), variables);
  if (out.cache.empty())
    out.cache = expanded(nonempty(variables, "HUGGINGFACE_HUB_CACHE"), variables);
  if (out.cache.empty()) out.cache = home / "hub";
  out.cache = fs::absolute(out.cache);
  if (auto const endpoint = nonempty(variables, "HF_ENDPOINT"); !endpoint.empty())
    out.endpoint = endpoint;
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  parallel::require(net::is_http_url(out.endpoint),
                    "HF_ENDPOINT: is no address; expected something like https://huggingface.co");
  static_cast<void>(net::parse_url(out.endpoint));
  auto const offline = nonempty(variables, "HF_HUB_OFFLINE");
  out.offline = is_true(offline.empty() ? nonempty(variables, "TRANSFORMERS_OFFLINE") : offline);
  if (auto const text = nonempty(variables, "HF_HUB_DOWNLOAD_TIMEOUT"); !text.empty()) {
    int seconds = 0;
    auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    parallel::require(problem == std::errc() && end == text.data() + text.size() && seconds > 0,
                      "HF_HUB_DOWNLOAD_TIMEOUT: '", text, "' is no number of seconds");
    out.idle_timeout = std::chrono::seconds(seconds);
  }
  read_token(variables, home, out);
  return out;
}

}  // namespace mpt::hub
