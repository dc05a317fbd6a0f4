#include <mpt/net/object_store.hpp>

#include <fstream>
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <parallel/support/files.hpp>

namespace object_store_test {

using variables = std::map<std::string, std::string>;

mpt::net::object_store read(variables const& values) {
  return mpt::net::read_object_store([&](std::string const& name) -> std::optional<std::string> {
    auto const found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  });
}

std::string problem_of(variables const& values) {
  try {
    static_cast<void>(read(values));
  } catch (parallel::error const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST_CASE("object store: the environment names endpoint, region and key") {
  auto const store = read({{"AWS_ACCESS_KEY_ID", "id"},
                           {"AWS_SECRET_ACCESS_KEY", "secret"},
                           {"AWS_SESSION_TOKEN", "token"},
                           {"AWS_DEFAULT_REGION", "us-west-2"},
                           {"AWS_REGION", "eu-central-1"},
                           {"S3_ENDPOINT_URL", "http://127.0.0.1:9000/"}});
  CHECK(store.endpoint == "http://127.0.0.1:9000");
  CHECK(store.region == "eu-central-1");
  REQUIRE(store.key);
  CHECK(store.key->access_key == "id");
  CHECK(store.key->secret_key == "secret");
  CHECK(store.key->session_token == "token");
  CHECK(store.key->region == "eu-central-1");
}

TEST_CASE("object store: without a key nothing is signed") {
  auto const store = read({{"HOME", "/nowhere"}});
  CHECK(!store.key);
  CHECK(store.endpoint.empty());
  CHECK(store.region == "us-east-1");
}

TEST_CASE("object store: a credentials file has the key of the profile that is asked for") {
  test::temporary_folder const folder;
  auto const file = (folder.path() / "credentials").native();
  std::ofstream(file) << "# comment\n[default]\naws_access_key_id = first\n"
                         "aws_secret_access_key=one==\n\n[ other ]\r\naws_access_key_id= second\r\n"
                         "aws_secret_access_key = two\r\naws_session_token = t\r\n";
  auto const first = read({{"AWS_SHARED_CREDENTIALS_FILE", file}});
  REQUIRE(first.key);
  CHECK(first.key->access_key == "first");
  CHECK(first.key->secret_key == "one==");
  auto const second = read({{"AWS_SHARED_CREDENTIALS_FILE", file}, {"AWS_PROFILE", "other"}});
  REQUIRE(second.key);
  CHECK(second.key->access_key == "second");
  CHECK(second.key->session_token == "t");
  CHECK(second.key_source == file + " [other]");
  CHECK(problem_of({{"AWS_SHARED_CREDENTIALS_FILE", file}, {"AWS_PROFILE", "third"}})
            .find("credentials has no key of profile 'third'") != std::string::npos);
  CHECK(problem_of({{"HOME", "/nowhere"}, {"AWS_PROFILE", "third"}}).find("(not there)") !=
        std::string::npos);
}

TEST_CASE("object store: each invalid setting gives a message that has no secret") {
  CHECK(problem_of({{"AWS_ACCESS_KEY_ID", "id"}}).find("half a key") != std::string::npos);
  CHECK(problem_of({{"AWS_ENDPOINT_URL", "store"}}).find("AWS_ENDPOINT_URL: is no address") == 0);
  auto const broken =
      problem_of({{"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "hid\nden"}});
  CHECK(broken.find("the key's secret has blanks") != std::string::npos);
  CHECK(broken.find("hid") == std::string::npos);
}

}  // namespace object_store_test
