#include <mpt/hub/repository.hpp>

#include <doctest/doctest.h>

#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>

namespace repository_test {

using namespace mpt::hub;

TEST_CASE("repository: names are the hub's") {
  for (auto const* name : {"gpt2", "org/name", "EleutherAI/gpt-neox-20b", "a.b/c_d-1.5"})
    CHECK(is_repository_name(name));
  for (auto const* name : {"", "/", "a/", "/a", "a/b/c", "..", "a/..", "../a", "a--b/c", "-a/b",
                           "a/b-", "a/.b", "a b/c", "a/b.git", "\xc3\xbc/a", "a\nb"})
    CHECK_FALSE(is_repository_name(name));
  CHECK_FALSE(is_repository_name(std::string(97, 'a')));
}

TEST_CASE("repository: names of files and of what is here mean no repository") {
  CHECK(means_repository("mosaicml/mpt-7b"));
  for (auto const* name :
       {"gpt2", "yamls/mpt-125m.yaml", "data/train.jsonl", "a/b.pt", "./a", "/tmp/x"})
    CHECK_FALSE(means_repository(name));
}

TEST_CASE("repository: folders and addresses are the hub's") {
  repository const model{repository_kind::model, "org/name"};
  CHECK(model.folder() == "models--org--name");
  CHECK(model.web_path() == "/org/name");
  CHECK(model.api_path() == "/api/models/org/name");
  repository const dataset{repository_kind::dataset, "org/name"};
  CHECK(dataset.folder() == "datasets--org--name");
  CHECK(dataset.web_path() == "/datasets/org/name");
  CHECK(dataset.api_path() == "/api/datasets/org/name");
}

TEST_CASE("repository: a snapshot's folder has the name of its repository") {
  std::string const commit = "0123456789abcdef0123456789abcdef01234567";
  auto const name_of = [&](std::string const& folder) {
    auto const found = repository_of_snapshot(folder + commit);
    return found ? found->name : std::string();
  };
  CHECK(name_of("/c/models--org--name/snapshots/") == "org/name");
  CHECK(name_of("/c/models--gpt2/snapshots/") == "gpt2");
  CHECK(name_of("/c/datasets--org--na-me/snapshots/") == "org/na-me");
  for (auto const* folder : {"/c/models--org--name/", "/c/org--name/snapshots/", "/models/",
                             "/c/models--/snapshots/", "/c/models--a--b--c/snapshots/"})
    CHECK(name_of(folder).empty());
  CHECK_FALSE(repository_of_snapshot("/c/models--org--name/snapshots/main"));
}

TEST_CASE("repository: a snapshot is named by its commit, unless main is there") {
  std::string const commit(40, 'a');
  test::temporary_folder const cache;
  auto const refs = cache.path() / "models--org--name" / "refs";
  auto const snapshot = cache.path() / "models--org--name" / "snapshots" / commit;
  std::filesystem::create_directories(refs);
  CHECK(revision_of_snapshot(snapshot) == commit);
  for (auto const& [main, revision] :
       {std::pair(commit + "\n", std::string("main")), {std::string(40, 'b'), commit}}) {
    parallel::write_text_file(refs / "main", main);
    CHECK(revision_of_snapshot(snapshot) == revision);
  }
}

TEST_CASE("repository: a revision stays inside its folder") {
  for (auto const* name : {"main", "v1.0", "refs/pr/1", "0123456789012345678901234567890123456789"})
    CHECK_NOTHROW(check_revision(name));
  for (auto const* name : {"", "..", "a/../b", "/a", "a/", "a b", ".hidden", "a\\b", "a:b"})
    CHECK_THROWS_AS(check_revision(name), parallel::error);
  CHECK(is_commit("0123456789abcdef0123456789abcdef01234567"));
  CHECK_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  CHECK_FALSE(is_commit("main"));
}

}  // namespace repository_test
