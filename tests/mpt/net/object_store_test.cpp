#include <chrono>
#include <fstream>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <mpt/data/hash.hpp>
#include <mpt/net/object_store.hpp>
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

namespace aws_signature_test {

using namespace mpt::net;

/// The key and the time of the examples that Amazon publishes for S3 ("Signature Calculations for
/// the Authorization Header").
aws_key const example_key{"us-east-1", "AKIAIOSFODNN7EXAMPLE",
                          "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
std::chrono::system_clock::time_point const example_time{std::chrono::seconds(1369353600)};

std::string value_of(header_list const& headers, std::string const& name) {
  for (auto const& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string signature_of(http_request const& request, aws_key const& key = example_key) {
  auto const text = value_of(aws_signature(request, key, example_time), "Authorization");
  return text.substr(text.find("Signature=") + 10);
}

http_request get(std::string const& url, header_list headers = {}) {
  http_request out;
  out.url = url;
  out.headers = std::move(headers);
  return out;
}

TEST_CASE("AWS signature: Amazon's published examples") {
  std::string const bucket = "https://examplebucket.s3.amazonaws.com";
  CHECK(signature_of(get(bucket + "/test.txt", {{"Range", "bytes=0-9"}})) ==
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK(signature_of(get(bucket + "/?lifecycle")) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(signature_of(get(bucket + "/?max-keys=2&prefix=J")) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  CHECK(signature_of(get(bucket + "/?prefix=J&max-keys=2")) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  auto put = get(bucket + "/test%24file.text", {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"}});
  put.method = "PUT";
  put.body = "Welcome to Amazon S3.";
  CHECK(signature_of(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST_CASE("AWS signature: the headers say what is signed, and hold no secret") {
  auto key = example_key;
  key.session_token = "token";
  auto const headers =
      aws_signature(get("http://127.0.0.1:9000/b/a", {{"Range", "bytes=1-"}}), key, example_time);
  CHECK(value_of(headers, "x-amz-date") == "20130524T000000Z");
  CHECK(value_of(headers, "x-amz-content-sha256") == mpt::data::hash_of("sha256", ""));
  CHECK(value_of(headers, "x-amz-security-token") == "token");
  CHECK(value_of(headers, "Authorization")
            .starts_with("AWS4-HMAC-SHA256 "
                         "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                         "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;"
                         "x-amz-security-token, Signature="));
  for (auto const& [name, value] : headers)
    CHECK(value.find(example_key.secret_key) == std::string::npos);
}

TEST_CASE(
    "AWS signature: host, port, path and key change it; Accept-Encoding, which proxies "
    "change, does not") {
  auto const reference = signature_of(get("http://a:9000/b/c"));
  CHECK(signature_of(get("http://a:9000/b/c", {{"Accept-Encoding", "identity"}})) == reference);
  for (std::string const url : {"http://a:9001/b/c", "http://b:9000/b/c", "http://a:9000/b/d"})
    CHECK(signature_of(get(url)) != reference);
  CHECK(signature_of(get("http://a:80/b")) == signature_of(get("http://a/b")));
  auto other = example_key;
  other.region = "eu-central-1";
  CHECK(signature_of(get("http://a:9000/b/c"), other) != reference);
}

}  // namespace aws_signature_test
