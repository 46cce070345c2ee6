//! A share that is the root of a DFS namespace.
//!
//! Clients look for the other servers of a namespace at the usual port, which tests do not have: so
//! that what leads there is asked for by hand, and smbclient sees what does not.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;

use bench::client::{Client, Protection};
use dtyp::{AccessMask, NtStatus, utf16};
use harness::{Setup, TestServer, USER, give_to_server};
use wire::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use wire::ioctl::{
    DfsReferralRequest, DfsReferralResponse, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse,
};
use wire::{Command, Decode, FileId};

fn start() -> TestServer {
    let server = Setup::new().share("data", "").share("dfs", "msdfs root = yes").start();
    let folder = server.share_path("dfs");
    fs::create_dir(folder.join("deep")).expect("there is space");
    fs::write(folder.join("deep/plain"), "here").expect("there is space");
    give_to_server(&folder.join("deep"));
    symlink("msdfs:one\\share,two/share/sub", folder.join("deep/link")).expect("there is space");
    server
}

fn connect(server: &TestServer) -> Client {
    server.connect("dfs", Protection::Signed)
}

fn open(client: &mut Client, name: &str) -> NtStatus {
    let name = utf16::to_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_GENERIC_READ,
        share_access: ShareAccess::READ,
        create_disposition: CreateDisposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    client.call(Command::CREATE, 0, &request).expect("an answer").header.status
}

fn ask(client: &mut Client, path: &str) -> Result<DfsReferralResponse, NtStatus> {
    let mut input = Vec::new();
    let request = DfsReferralRequest { max_referral_level: 3, request_file_name: path.to_owned() };
    request.encode(&mut input);
    let request = IoctlRequest {
        ctl_code: FsctlCode::DFS_GET_REFERRALS,
        file_id: FileId::ANY,
        input: &input,
        max_output_response: 4_096,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let reply = client.call(Command::IOCTL, 0, &request).expect("an answer");
    if reply.header.status.is_error() {
        return Err(reply.header.status);
    }
    let response = IoctlResponse::decode(client.message(&reply)).expect("well-formed");
    Ok(DfsReferralResponse::decode(response.output).expect("well-formed"))
}

#[test]
fn a_link_leads_clients_to_other_servers() {
    let server = start();
    let mut client = connect(&server);
    assert_eq!(open(&mut client, "deep\\plain"), NtStatus::SUCCESS);
    for path in ["deep\\link", "deep\\link\\further"] {
        assert_eq!(open(&mut client, path), NtStatus::PATH_NOT_COVERED);
        let referral = ask(&mut client, &format!("\\127.0.0.1\\dfs\\{path}")).expect("a link");
        assert_eq!(referral.dfs_path, "\\127.0.0.1\\dfs\\deep\\link");
        assert_eq!(referral.targets, ["\\one\\share", "\\two\\share\\sub"]);
    }
    for path in ["\\127.0.0.1\\data", "\\127.0.0.1\\dfs\\deep\\plain"] {
        assert_eq!(ask(&mut client, path), Err(NtStatus::NOT_FOUND), "{path}");
    }
    drop(client);
    server.stop();
}

#[test]
fn a_home_may_be_a_dfs_root_by_each_of_its_names() {
    let server = Setup::new().share("homes", "path = %FOLDER/%S\nmsdfs root = yes").start();
    let home = server.share_path("homes").join(USER);
    fs::create_dir(&home).expect("there is space");
    fs::write(home.join("within"), "").expect("there is space");
    symlink("msdfs:one\\share", home.join("link")).expect("there is space");
    for name in [USER, "homes"] {
        let listed = server.client().run(name, &["ls"]).succeeds();
        assert!(listed.contains("within") && listed.contains("link"), "{name}: {listed}");
        let mut client = server.connect(name, Protection::Signed);
        let referral = ask(&mut client, &format!("\\127.0.0.1\\{name}\\link")).expect("a link");
        assert_eq!(referral.dfs_path, format!("\\127.0.0.1\\{name}\\link"));
    }
    server.stop();
}

#[test]
fn a_client_that_sends_full_dfs_paths_finds_local_files() {
    let server = start();
    let folder = server.client_folder("work");
    let client = server.client();
    let listed = client.run("dfs", &["ls deep\\*", "get deep\\plain back"]).succeeds();
    assert!(listed.contains("link") && listed.contains("plain"), "{listed}");
    assert_eq!(fs::read_to_string(folder.join("back")).expect("it was fetched"), "here");
    server.stop();
}
