#include <mpt/net/aws_signature.hpp>

#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include <mpt/data/hash.hpp>

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
