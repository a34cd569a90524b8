#!/usr/bin/env python3
"""The list of software of a release, as SPDX 2.3 in JSON. usage: sbom.py PACKAGES VERSION COMMIT TIME TARBALL_SHA256

PACKAGES is packages.txt of a build folder. TIME is the commit's, so that a release made again is the same."""
import json
import re
import sys


def identifier(name):
    return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, license, **more):
    return {"SPDXID": identifier(name), "name": name, "versionInfo": version or "NOASSERTION",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": license,
            "licenseDeclared": license, "copyrightText": "NOASSERTION", **more}


def document(lines, version, commit, time, sha256):
    used = [line.split("|") for line in lines.splitlines() if line]
    cairn = package("cairn", version, "Apache-2.0", sourceInfo=f"commit {commit}",
                    checksums=[{"algorithm": "SHA256", "checksumValue": sha256}])
    others = [package(name, found, license, comment=purpose) for name, found, license, purpose in used]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": identifier("cairn")}]
    relations += [{"spdxElementId": identifier("cairn"), "relationshipType": "DEPENDS_ON",
                   "relatedSpdxElement": one["SPDXID"]} for one in others]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"cairn-{version}", "documentNamespace": f"urn:cairn:{version}:{commit}",
            "creationInfo": {"created": time, "creators": [f"Tool: cairn-sbom-{version}"]},
            "packages": [cairn, *others], "relationships": relations}


def main(arguments):
    if len(arguments) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        print(json.dumps(document(file.read(), *arguments[1:]), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
