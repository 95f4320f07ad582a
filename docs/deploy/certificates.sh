#!/usr/bin/env bash
# Makes a certificate authority and the SuperLink's certificate, with OpenSSL.
# usage: certificates.sh FOLDER NAME...    every name or IP address under which devices reach the server
set -euo pipefail
folder=${1:?the folder for the files}
shift
: "${1:?a name or IP address of the server}"
umask 077
mkdir -p "$folder"
cd "$folder"
for name in "$@" localhost 127.0.0.1; do
    if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then kind=IP; else kind=DNS; fi
    names=${names:+$names,}$kind:$name
done

if [[ ! -e ca.key ]]; then # made once; a new certificate of the same authority asks nothing of the devices
    openssl ecparam -name secp384r1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -days 3650 -sha256 -out ca.crt -subj "/CN=fedslice certificate authority" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
fi
openssl ecparam -name secp384r1 -genkey -noout -out server.key
openssl req -new -key server.key -out server.csr -subj "/CN=$1"
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 -sha256 -out server.pem \
    -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names")
rm server.csr
chmod 644 ca.crt server.pem
echo "$folder: ca.crt goes to every device; ca.key stays off the server"
