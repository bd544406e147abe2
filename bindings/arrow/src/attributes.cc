#include "attributes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Result;
using ::arrow::Status;

namespace {

constexpr std::array<std::pair<std::string_view, const char *>, 6> kAttributes = {{
    {"Cache-Control", "cache_control"},
    {"Content-Disposition", "content_disposition"},
    {"Content-Encoding", "content_encoding"},
    {"Content-Language", "content_language"},
    {"Content-Type", "content_type"},
    {"Expires", "expires"},
}};

std::string Lower(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char each) { return std::tolower(each); });
    return lower;
}

}  // namespace

Result<Options> ToOptions(const Settings &settings) {
    return Try([&] {
        Options options;
        for (const auto &[name, value] : settings) options.set(name, value);
        return options;
    });
}

Result<Options> OfWrite(const Settings &settings, const ::arrow::KeyValueMetadata *metadata) {
    Settings all = settings;
    for (std::int64_t at = 0; metadata != nullptr && at < metadata->size(); ++at) {
        const std::string &name = metadata->key(at), &value = metadata->value(at);
        const std::string lower = Lower(name);
        if (lower == "acl")
            return Status::NotImplemented("ACLs of objects are not supported; give the bucket a policy");
        const auto known = std::find_if(
            kAttributes.begin(), kAttributes.end(), [&](const auto &attribute) { return Lower(attribute.first) == lower; });
        if (known == kAttributes.end()) {
            all.emplace_back("metadata", name + "=" + value);
            continue;
        }
        std::erase_if(all, [&](const auto &setting) { return setting.first == known->second; });
        all.emplace_back(known->second, value);
    }
    return ToOptions(all);
}

std::shared_ptr<const ::arrow::KeyValueMetadata> MetadataOf(const ObjectView &object) {
    auto metadata = std::make_shared<::arrow::KeyValueMetadata>();
    const auto add = [&](std::string_view name, const char *property) {
        if (const auto value = object.text(property)) metadata->Append(std::string(name), std::string(*value));
    };
    for (const auto &[name, property] : kAttributes) add(name, property);
    add("ETag", "etag");
    add("VersionId", "version");
    if (object.has_size()) metadata->Append("Content-Length", std::to_string(object.size()));
    for (const auto &[name, value] : object.metadata()) metadata->Append(std::string(name), std::string(value));
    return metadata;
}

Settings OfStorage(const Settings &settings) {
    Settings found;
    for (const auto &setting : settings)
        if (setting.first == "encryption" || setting.first == "storage_class") found.push_back(setting);
    return found;
}

}  // namespace tidegate::arrowfs
