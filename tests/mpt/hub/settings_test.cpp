#include <mpt/hub/settings.hpp>

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>

namespace settings_test {

using namespace mpt::hub;

settings settings_of(std::map<std::string, std::string> const& variables) {
  return read_settings([&](std::string const& name) -> std::optional<std::string> {
    auto const found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST_CASE("hub settings: the cache's folder is huggingface_hub's") {
  CHECK(settings_of({{"HOME", "/home/me"}}).cache == "/home/me/.cache/huggingface/hub");
  CHECK(settings_of({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/x"}}).cache ==
        "/x/huggingface/hub");
  CHECK(settings_of({{"HOME", "/home/me"}, {"HF_HOME", "~/hf"}}).cache == "/home/me/hf/hub");
  CHECK(settings_of({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache == "/old");
  CHECK(
      settings_of({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}})
          .cache == "/new");
}

TEST_CASE("hub settings: variables in paths have the values that huggingface_hub 2.4 reads") {
  for (auto const& [written, read] :
       std::initializer_list<std::pair<char const*, char const*>>{{"$CACHES/hub", "/c/hub"},
                                                                  {"${CACHES}x/hub", "/cx/hub"},
                                                                  {"/$CACHESx", "/$CACHESx"},
                                                                  {"/a$/b$", "/a$/b$"},
                                                                  {"/a/${CACHES", "/a/${CACHES"},
                                                                  {"/$NESTED", "/$CACHES"},
                                                                  {"~/$NAME", "/home/me/c"},
                                                                  {"/a/$1/$$NAME", "/a/$1/$c"},
                                                                  {"/a/${}/b", "/a/${}/b"},
                                                                  {"/a/${OF CACHES}", "/a/d"}}) {
    std::string const path = written, expected = read;
    CAPTURE(path);
    std::map<std::string, std::string> variables{{"HOME", "/home/me"},  {"CACHES", "/c"},
                                                 {"NESTED", "$CACHES"}, {"NAME", "c"},
                                                 {"OF CACHES", "d"},    {"HF_HUB_CACHE", path}};
    CHECK(settings_of(variables).cache == expected);
  }
  CHECK(settings_of({{"HF_HOME", "$CACHES/hf"}, {"CACHES", "/c"}}).cache == "/c/hf/hub");
  CHECK(settings_of({{"XDG_CACHE_HOME", "$CACHES/x"}, {"CACHES", "/c"}}).cache ==
        "/c/x/huggingface/hub");
}

TEST_CASE("hub settings: offline, endpoint and time limit") {
  CHECK_FALSE(settings_of({{"HF_HUB_OFFLINE", "0"}}).offline);
  for (auto const* word : {"1", "on", "Yes", "TRUE"})
    CHECK(settings_of({{"HF_HUB_OFFLINE", word}}).offline);
  CHECK(settings_of({{"TRANSFORMERS_OFFLINE", "1"}}).offline);
  CHECK(settings_of({}).endpoint == "https://huggingface.co");
  CHECK(settings_of({{"HF_ENDPOINT", "http://mirror:8080/"}}).endpoint == "http://mirror:8080");
  CHECK_THROWS_AS(settings_of({{"HF_ENDPOINT", "mirror"}}), parallel::error);
  CHECK(settings_of({{"HF_HUB_DOWNLOAD_TIMEOUT", "7"}}).idle_timeout.count() == 7);
  CHECK_THROWS_AS(settings_of({{"HF_HUB_DOWNLOAD_TIMEOUT", "soon"}}), parallel::error);
}

TEST_CASE("hub settings: blanks around a token are removed, and an invalid token is not quoted") {
  auto const found = settings_of({{"HF_TOKEN", " hf_abc\n"}, {"HUGGING_FACE_HUB_TOKEN", "old"}});
  CHECK(found.token == "hf_abc");
  CHECK(found.token_source == "HF_TOKEN");
  CHECK(settings_of({{"HUGGING_FACE_HUB_TOKEN", "old"}}).token == "old");
  CHECK(settings_of({{"HF_HOME", "/nowhere"}}).token.empty());
  try {
    static_cast<void>(settings_of({{"HF_TOKEN", "hf_abc\r\nX: y"}}));
    FAIL("taken");
  } catch (parallel::error const& problem) {
    CHECK(std::string(problem.what()).find("hf_abc") == std::string::npos);
  }
}

}  // namespace settings_test
